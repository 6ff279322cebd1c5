-- A transaction that belongs to a request, as listings show it: what the user sent, what we sent, what failed.
create table transaction_record (
    record_id {identity},
    request_id {bytes} not null,
    chain_id bigint not null,
    tx_hash {bytes} not null,
    -- in: the user's; out: ours.
    direction text not null,
    sender {bytes} not null,
    target {bytes},
    value text not null,
    data {bytes} not null,
    -- Null until its receipt has been read.
    fee text,
    block_number bigint not null,
    block_hash {bytes} not null,
    block_time bigint not null,
    succeeded bigint not null,
    -- 1 when a reorg took its block away.
    gone bigint not null default 0,
    unique (request_id, chain_id, tx_hash, direction)
);
create index transaction_record_by_hash on transaction_record (tx_hash);
create index transaction_record_in_block on transaction_record (chain_id, block_number);
create index transaction_record_without_fee on transaction_record (chain_id, record_id) where fee is null;

-- A deposit that pays for no order but names one becomes a request of its own, under the one it names.
alter table request add column parent_id {bytes};
create index request_of_parent on request (parent_id);

-- The block with which enough stand on a deposit: how many that are depends on what it is worth.
alter table deposit add column ripe_at bigint;

-- Dollars (millionths) paid out against deposits that are not final, by the deposits' chain: in all, and in one minute.
create table risk_budget (
    chain_id bigint primary key,
    open_usd bigint not null,
    minute bigint not null,
    minute_usd bigint not null
);

-- What each order takes of it until its deposit is final.
create table risk_exposure (
    order_id {bytes} primary key,
    chain_id bigint not null,
    usd bigint not null
);

-- 1 for an attempt that only uses up the nonce: the payment was given up.
alter table attempt add column cancels bigint not null default 0;
