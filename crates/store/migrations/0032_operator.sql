-- Pauses of chains: while one is in force, nothing new is quoted or paid on the chain. A row without an end is in force;
-- the others say who did it and why.
create table chain_pause (
    pause_id {identity},
    chain_id bigint not null,
    paused_at bigint not null,
    paused_by text not null,
    reason text not null,
    resumed_at bigint,
    resumed_by text,
    resume_reason text
);
create unique index chain_pause_in_force on chain_pause (chain_id) where resumed_at is null;

-- Audits that were run, newest last. The findings are JSON: a list of checks, as the command prints them.
create table audit_run (
    audit_id {identity},
    began_at bigint not null,
    ended_at bigint not null,
    compared bigint not null,
    different bigint not null,
    checks text not null
);

-- Balances of the depositories beside what the depository ledger owes, both as of one block. The allocator writes them.
create table depository_holding (
    chain_id bigint not null,
    currency {bytes} not null check (length(currency) = 20),
    held {bytes} not null check (length(held) = 32),
    owed {bytes} not null check (length(owed) = 32),
    block_number bigint not null,
    noted_at bigint not null,
    primary key (chain_id, currency)
);

-- Fees that a wallet paid for others, by time: the chart of a sponsor reads a week of them.
create index ledger_entry_sponsored on ledger_entry (wallet, at) where credit = 'fees';
