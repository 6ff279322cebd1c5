-- What users did alone on one chain that apps earn by. Their share has reached the treasury, and is booked in the ledger
-- once the transaction is final.
create table execution (
    execution_id {identity},
    chain_id bigint not null,
    tx_hash {bytes} not null,
    request_id {bytes} not null,
    block_number bigint not null,
    state text not null check (state in ('seen', 'booked', 'gone')),
    -- What it came to, once it is booked. Nothing where nobody could say.
    body text,
    unique (chain_id, tx_hash)
);
create index execution_in_block on execution (chain_id, block_number);
create index execution_seen on execution (chain_id, execution_id) where state = 'seen';
