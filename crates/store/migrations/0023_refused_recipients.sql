-- 1 if the recipient or a call of the caller's own made the transaction fail: its gas comes off the refund.
alter table transaction_record add column refused bigint not null default 0 check (refused in (0, 1));

-- Recipients that refused a payment. They are promised nothing for a while.
create table refused_recipient (
    chain_id bigint not null,
    currency {bytes} not null,
    address {bytes} not null,
    refused_at bigint not null,
    primary key (chain_id, currency, address)
);
create index refused_recipient_since on refused_recipient (refused_at);
