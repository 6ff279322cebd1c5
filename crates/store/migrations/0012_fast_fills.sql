-- Orders that were to be filled ahead of their deposit, at the risk of an integrator. What stands for it is a hold of the
-- ledger; until a deposit takes the order's slot, a row in `loss` says what it is short of.
create table fast_fill (
    order_id {bytes} primary key,
    request_id {bytes} not null,
    -- Which of the request's holds it is.
    attempt bigint not null,
    key_id text not null,
    wallet {bytes} not null,
    -- What is counted on, in the deposit's currency, and what that was worth in millionths of a USDC.
    amount text not null,
    held bigint not null,
    -- 1 when nothing was paid after all.
    voided bigint not null default 0,
    created_at bigint not null
);

-- A wallet that is to be linked to a key: what has to be signed for it. A key has one such at a time.
create table wallet_link (
    key_id text primary key,
    wallet {bytes} not null,
    nonce {bytes} not null check (length(nonce) = 32),
    expires_at bigint not null
);

-- What was answered under a caller's own name for its call, so that calling again does nothing again.
create table idempotent_call (
    key_id text not null,
    name text not null,
    -- Of the route and the body.
    fingerprint {bytes} not null,
    -- Null while the first of them is being answered.
    status bigint,
    answer text,
    -- Who answers it, and since when: a caller may take over from one that died.
    owner {bytes} not null,
    created_at bigint not null,
    primary key (key_id, name)
);
create index idempotent_call_age on idempotent_call (created_at);
