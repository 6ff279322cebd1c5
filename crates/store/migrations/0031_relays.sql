-- Transactions that users have signed for and one of our relayers sends. Each is a payment of the relayer's lane.
create table relay (
    -- The request that it is for: a request is relayed once.
    request_id {bytes} primary key,
    chain_id bigint not null,
    -- Who signed, or the smart account that is called.
    account {bytes} not null,
    -- The relayer that the signature names. Nobody else can send it.
    relayer {bytes} not null,
    target {bytes} not null,
    data {bytes} not null,
    -- EIP-7702 authorizations, as a transaction carries them. Empty where there are none.
    authorizations {bytes} not null,
    gas bigint not null,
    -- The key that it was asked with, if one was needed.
    key_id text,
    -- 1 for a raw call whose gas is charged to the caller's own app balance.
    charged bigint not null check (charged in (0, 1)),
    -- The signature is of no use from then on, in milliseconds since the Unix epoch.
    deadline bigint not null,
    -- `live` until a block has it.
    state text not null check (state in ('live', 'done', 'void')),
    created_at bigint not null,
    updated_at bigint not null
);
-- One at a time: the same balance must not stand behind many that then fail.
create unique index relay_live on relay (account, chain_id) where state = 'live' and charged = 0;
create index relay_void on relay (account, updated_at) where state = 'void';
create index relay_void_on_chain on relay (chain_id, updated_at) where state = 'void';
