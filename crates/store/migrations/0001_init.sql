-- What was offered and not yet acted upon. The first event of a transfer moves it to its request; the rest are pruned.
-- Two unique keys and no other index: this table takes the highest insert rate of all.
create table quote (
    id {identity},
    request_id {bytes} not null unique,
    order_id {bytes} unique,
    created_at bigint not null,
    expires_at bigint not null,
    body text not null
);
