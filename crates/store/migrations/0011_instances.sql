-- Every process that serves this database. It is alive until its last beat expires, by the database's own clock.
create table instance (
    instance_id text primary key,
    name text not null,
    role text not null,
    -- 1 where it answers callers: those share what callers may ask for.
    answers bigint not null check (answers in (0, 1)),
    started_at bigint not null,
    -- How often it has beaten. A process that finds fewer than it remembers looks at another database than before.
    beats bigint not null,
    expires_at bigint not null
);

-- Who may write as what. Every taking has an epoch of its own, and what is written under an earlier one is refused. When
-- a holder's beat expires, another may take it.
create table lease (
    kind text primary key,
    epoch bigint not null,
    -- Null where it was let go of in order.
    holder text,
    -- The holder's name, kept for people.
    name text,
    taken_at bigint
);
insert into lease (kind, epoch) values ('worker', 0), ('allocator', 0);

-- What the worker has found out about a chain and other processes go by. It counts as long as the worker's lease has the
-- epoch it was written under.
create table chain_state (
    chain_id bigint primary key,
    epoch bigint not null,
    -- Why no payments are made on the chain, where none are.
    refusing text
);

-- Recipients that are contracts, as quoting has found out: whoever pays them may be another process.
create table contract_account (
    chain_id bigint not null,
    address {bytes} not null,
    seen_at bigint not null,
    primary key (chain_id, address)
);
create index contract_account_seen on contract_account (seen_at);
