-- Deposit addresses that were forgotten with their requests, because nobody had ever paid at them. Somebody may pay later,
-- or has on a chain that was not looked at: everything that it takes to sweep an address is kept for good.
create table forgotten_address (
    address {bytes} primary key,
    request_id {bytes} not null,
    order_id {bytes} not null,
    kind text not null check (kind in ('strict', 'open')),
    route_key {bytes},
    depositor {bytes},
    chain_id bigint not null,
    currency {bytes} not null,
    created_at bigint not null,
    -- The request's quote: whom money goes back to, and the options by which it is priced anew.
    quote text not null,
    -- The number of its last posted event, so that none is given twice.
    posted_events bigint not null,
    check ((route_key is null) <> (depositor is null))
);
