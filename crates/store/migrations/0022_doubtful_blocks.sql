-- Blocks behind the cursor with an event that too few nodes have shown. Each is read again until its nodes agree.
create table doubtful_block (
    chain_id bigint not null,
    number bigint not null,
    hash {bytes} not null,
    created_at bigint not null,
    asked_at bigint not null,
    primary key (chain_id, number)
);
