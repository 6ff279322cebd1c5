-- What reached the treasury from outside. It is credited to an app balance once it is final, or left for a person where
-- nobody can be named.
create table receipt (
    receipt_id {identity},
    chain_id bigint not null,
    tx_hash {bytes} not null,
    ordinal bigint not null,
    log_index bigint,
    block_number bigint not null,
    block_hash {bytes} not null,
    sender {bytes} not null,
    currency {bytes} not null,
    amount text not null,
    -- Whom to credit, or why nobody.
    account {bytes},
    reason text,
    state text not null check (state in ('seen', 'credited', 'unattributed', 'gone')),
    -- What was credited, in millionths of a USDC, and at which block's price.
    credited bigint,
    priced_at bigint,
    seen_at bigint not null,
    updated_at bigint not null,
    unique (chain_id, tx_hash, ordinal),
    check ((account is null) <> (reason is null)),
    check ((state = 'credited') = (credited is not null))
);
create index receipt_by_state on receipt (chain_id, state, block_number);
create index receipt_in_block on receipt (chain_id, block_number);
