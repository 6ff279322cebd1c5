-- Withdrawals of app balances. One that is only asked for is good for a while; from its wallet's signature until its payment
-- is final a hold of the ledger stands for it.
create table claim (
    sequence {identity},
    claim_id {bytes} not null unique check (length(claim_id) = 32),
    wallet {bytes} not null,
    recipient {bytes} not null,
    chain_id bigint not null,
    currency {bytes} not null,
    -- Millionths of a USDC.
    amount bigint not null check (amount > 0),
    state text not null check (state in ('asked', 'pending', 'success', 'failure')),
    -- Until when it can be signed for.
    expires_at bigint not null,
    created_at bigint not null,
    updated_at bigint not null
);
create index claim_of on claim (wallet, sequence);
create index claim_asked on claim (expires_at) where state = 'asked';
