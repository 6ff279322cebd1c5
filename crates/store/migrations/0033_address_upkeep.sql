-- Addresses are found by the order of a deposit that came through them.
create index deposit_address_of_order on deposit_address (order_id);

-- An address at which nothing ever arrived is forgotten then, with its request. Null for one that is kept. So far they
-- were watched until a day after the end of their order.
alter table deposit_address add column forgotten_at bigint;
update deposit_address set forgotten_at = watched_until;
create index deposit_address_forgotten on deposit_address (chain_id, forgotten_at) where forgotten_at is not null;

-- Searches of an address that a caller asked for, each pair of caller and chain with a pause of its own: somebody else's
-- search must not keep the owner from theirs. Rows are dropped when their pause is over.
create table deposit_reindex (
    address {bytes} not null,
    chain_id bigint not null,
    -- A hash of the caller's API key, or of the network address of one without.
    caller {bytes} not null,
    at bigint not null,
    primary key (address, chain_id, caller)
);
create index deposit_reindex_by_age on deposit_reindex (at);
