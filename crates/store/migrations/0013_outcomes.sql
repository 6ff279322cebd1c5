-- What a fill comes to for its sponsor and for the apps whose fees it carries, as decided with it. It is booked in the
-- ledger once the fill is final.
create table fill_outcome (
    payment_id bigint primary key,
    order_id {bytes} not null,
    body text not null
);
create index fill_outcome_of on fill_outcome (order_id, payment_id);
