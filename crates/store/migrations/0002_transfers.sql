-- A transfer to which something has happened. Its quote moved here with the first event.
create table request (
    request_id {bytes} primary key,
    order_id {bytes} not null unique,
    state text not null,
    fail_reason text,
    refund_fail_reason text,
    details text,
    quote text not null,
    created_at bigint not null,
    updated_at bigint not null
);

-- Every step of every request, with the rule that took it: the trace, the outbox and the live stream in one.
create table request_event (
    sequence {identity},
    request_id {bytes} not null,
    state text not null,
    rule text not null,
    figures text not null,
    at bigint not null
);
create index request_event_of on request_event (request_id, sequence);

-- Money that reached a depository. Its identity survives a reorg; the block it stands in is an attribute.
create table deposit (
    deposit_id {identity},
    chain_id bigint not null,
    tx_hash {bytes} not null,
    ordinal bigint not null,
    log_index bigint not null,
    block_number bigint not null,
    block_hash {bytes} not null,
    block_time bigint not null,
    order_id {bytes},
    -- The id it carries, whether or not that is an order.
    claim {bytes},
    depositor {bytes} not null,
    payer {bytes} not null,
    sender {bytes} not null,
    currency {bytes} not null,
    amount text not null,
    state text not null,
    -- Why it pays for no order, where it does not.
    refused text,
    -- 1 while it waits to be sent back to its depositor, 2 when only a person can do that.
    return_due bigint not null default 0,
    seen_at bigint not null,
    unique (chain_id, tx_hash, ordinal)
);
create index deposit_by_state on deposit (chain_id, state, block_number);
create index deposit_to_return on deposit (chain_id, deposit_id) where return_due = 1;
create index deposit_by_block on deposit (chain_id, block_number);
create index deposit_by_order on deposit (order_id);

-- What a deposit was used for: at most one thing, and an order's input is paid by at most one deposit.
create table deposit_use (
    deposit_id bigint primary key,
    use text not null,
    order_id {bytes} not null,
    input bigint,
    unique (order_id, input)
);

-- A wallet on a chain and the next nonce it will use. Nonces live nowhere else.
create table lane (
    chain_id bigint not null,
    wallet {bytes} not null,
    next_nonce bigint not null,
    -- Why it takes no new work, where it does not.
    quarantined text,
    primary key (chain_id, wallet)
);

-- A transaction we decided to send, fixed before it was signed.
create table payment (
    payment_id {identity},
    purpose text not null,
    subject {bytes} not null,
    request_id {bytes} not null,
    order_id {bytes} not null,
    chain_id bigint not null,
    wallet {bytes} not null,
    nonce bigint not null,
    target {bytes} not null,
    value text not null,
    data {bytes} not null,
    gas bigint not null,
    recipient {bytes} not null,
    currency {bytes} not null,
    amount text not null,
    state text not null,
    tx_hash {bytes},
    block_number bigint,
    block_hash {bytes},
    fee text,
    created_at bigint not null,
    updated_at bigint not null,
    unique (chain_id, wallet, nonce)
);
-- One live payment for one purpose: a second one needs proof that the first is void.
create unique index payment_once on payment (purpose, subject) where state <> 'void';
create index payment_by_state on payment (chain_id, state, wallet, nonce);
create index payment_of_request on payment (request_id);
create index payment_of_subject on payment (purpose, subject);

-- The fees a payment was offered with. The last attempt is the one on its way.
create table attempt (
    payment_id bigint not null,
    ordinal bigint not null,
    max_fee bigint not null,
    max_tip bigint not null,
    created_at bigint not null,
    primary key (payment_id, ordinal)
);

-- How an order ends, taken in the commit that decides it. This row is what excludes paying twice.
create table settlement (
    order_id {bytes} primary key,
    outcome text not null,
    payment_id bigint not null
);

-- Money that must go out and could not yet, with the reason.
create table due (
    due_id {identity},
    purpose text not null,
    subject {bytes} not null,
    request_id {bytes} not null,
    order_id {bytes} not null,
    chain_id bigint not null,
    currency {bytes} not null,
    recipient {bytes} not null,
    amount text not null,
    reason text not null,
    -- 1 when only a person can help.
    parked bigint not null default 0,
    created_at bigint not null,
    updated_at bigint not null,
    unique (purpose, subject)
);
create index due_on on due (chain_id, parked, purpose, updated_at);

-- The blocks we have taken in, as far back as a reorg may reach.
create table block (
    chain_id bigint not null,
    number bigint not null,
    hash {bytes} not null,
    time bigint not null,
    primary key (chain_id, number)
);

-- The last block of each chain of which everything is stored.
create table chain_cursor (
    chain_id bigint primary key,
    number bigint not null,
    hash {bytes} not null
);
