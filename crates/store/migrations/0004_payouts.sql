-- The allocator's own book. It is read from the chains by the allocator itself; nothing of the solver's tables is copied
-- into it. Amounts are 32 bytes, big-endian, so that a constraint can compare them; they are added up in code.

-- The last final block of each chain that is in the book.
create table vault_cursor (
    chain_id bigint primary key,
    number bigint not null,
    hash {bytes} not null
);

-- Every final deposit, and what was promised out of it.
create table vault_deposit (
    deposit_key {bytes} primary key,
    chain_id bigint not null,
    tx_hash {bytes} not null,
    ordinal bigint not null,
    block_number bigint not null,
    block_hash {bytes} not null,
    block_time bigint not null,
    -- The id it names, proven or guessed from calldata.
    order_id {bytes},
    -- Under which a return of it is known.
    return_key {bytes} not null unique,
    depositor {bytes} not null,
    payer {bytes} not null,
    sender {bytes} not null,
    currency {bytes} not null,
    amount {bytes} not null check (length(amount) = 32),
    reimbursed {bytes} not null check (length(reimbursed) = 32),
    refunded {bytes} not null check (length(refunded) = 32),
    -- The sum of the two: never more than came in.
    claimed {bytes} not null check (length(claimed) = 32),
    -- 1 once it is proven to have been paid for, 2 when no proof was good enough and a person has to look, 3 while it
    -- goes back out of the depository.
    settled bigint not null default 0,
    refusal text,
    refused_at bigint,
    unique (chain_id, tx_hash, ordinal),
    check (reimbursed <= claimed),
    check (refunded <= claimed),
    check (claimed <= amount)
);
create index vault_deposit_open on vault_deposit (chain_id, block_number) where settled = 0;
create index vault_deposit_refused on vault_deposit (chain_id, refused_at) where settled = 2;
create index vault_deposit_settled on vault_deposit (chain_id, currency, block_number) where settled = 1 and claimed < amount;

-- How an order, or a deposit without one, was settled: once, one way, by one transaction, with one deposit.
create table vault_settlement (
    settlement_key {bytes} primary key,
    order_id {bytes} not null unique,
    deposit_key {bytes} not null unique,
    outcome text not null check (outcome in ('fill', 'refund', 'return', 'vault')),
    chain_id bigint not null,
    tx_hash {bytes} not null,
    at bigint not null,
    unique (chain_id, tx_hash)
);

-- What came in and went out, by currency, up to the cursor.
create table vault_total (
    chain_id bigint not null,
    currency {bytes} not null,
    deposited {bytes} not null check (length(deposited) = 32),
    executed {bytes} not null check (length(executed) = 32),
    primary key (chain_id, currency)
);

-- A payment out of a depository. Its nonce follows from what it is for, so that it can be executed once, however often it
-- is signed.
create table payout (
    payout_id {identity},
    nonce {bytes} not null unique check (length(nonce) = 32),
    -- 1: a deposit back to its depositor, 2: what was too much of it, 3: a batch of settled deposits to the treasury.
    kind bigint not null check (kind in (1, 2, 3)),
    -- The deposit's key, or the batch's.
    subject {bytes} not null,
    chain_id bigint not null,
    currency {bytes} not null,
    recipient {bytes} not null,
    amount {bytes} not null check (length(amount) = 32),
    state text not null check (state in ('intended', 'signed', 'executed', 'parked')),
    -- Why it does not go on, where it does not.
    note text,
    created_at bigint not null,
    updated_at bigint not null,
    unique (kind, subject)
);
create index payout_open on payout (chain_id, payout_id) where state in ('intended', 'signed');

-- What a payout takes out of which deposit. A deposit is in one batch, and goes back once.
create table payout_deposit (
    payout_id bigint not null,
    deposit_key {bytes} not null,
    kind bigint not null,
    amount {bytes} not null check (length(amount) = 32),
    primary key (payout_id, deposit_key),
    unique (kind, deposit_key)
);

-- What was signed for a payout. At most one signature of a payout can be good at a time, and none for long.
create table payout_signature (
    payout_id bigint not null,
    ordinal bigint not null,
    -- Unix seconds, by the chain's clock.
    issued bigint not null,
    expiration bigint not null,
    struct_hash {bytes} not null unique,
    -- Null between the decision to sign and the signature: signing again gives the same one.
    signature {bytes},
    live bigint not null default 1 check (live in (0, 1)),
    created_at bigint not null,
    primary key (payout_id, ordinal),
    check (expiration > issued and expiration - issued <= 1800)
);
create unique index payout_signature_live on payout_signature (payout_id) where live = 1;
create index payout_signature_since on payout_signature (created_at);

-- What a depository paid out without our having signed for it. While there is any, nothing is signed on that chain.
create table vault_stranger (
    chain_id bigint not null,
    struct_hash {bytes} not null,
    tx_hash {bytes} not null,
    block_number bigint not null,
    primary key (chain_id, struct_hash)
);
