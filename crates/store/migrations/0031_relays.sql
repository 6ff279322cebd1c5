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
    -- The signature is of no use from then on, in seconds since the Unix epoch.
    deadline bigint not null,
    state text not null check (state in ('live', 'done', 'void')),
    created_at bigint not null,
    updated_at bigint not null
);
create index relay_void on relay (account, updated_at) where state = 'void';
create index relay_void_on_chain on relay (chain_id, updated_at) where state = 'void';
