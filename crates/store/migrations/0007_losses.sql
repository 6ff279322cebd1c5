-- Orders that were paid out and whose deposit a reorg took away: what each is short of, until a deposit takes the slot.
create table loss (
    order_id {bytes} primary key,
    request_id {bytes} not null,
    -- Of the deposit.
    chain_id bigint not null,
    currency {bytes} not null,
    -- What was paid for.
    amount text not null,
    usd bigint not null,
    -- The order's, by the deposit's chain.
    deadline bigint not null,
    state text not null check (state in ('missing', 'booked', 'recovered')),
    -- The deposit that took the slot.
    deposit_id bigint,
    since bigint not null,
    booked_at bigint,
    recovered_at bigint,
    check (state <> 'booked' or booked_at is not null),
    check (state <> 'recovered' or (recovered_at is not null and deposit_id is not null))
);
create index loss_missing on loss (chain_id, deadline) where state = 'missing';
create index loss_since on loss (since);

-- When a reorg took it away, if one did.
alter table deposit add column gone_at bigint;
