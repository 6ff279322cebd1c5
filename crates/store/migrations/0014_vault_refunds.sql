-- An order may also end by a payout of the depository: the row is taken when that is decided, before it is signed.
create table settlement_next (
    order_id {bytes} primary key,
    outcome text not null,
    payment_id bigint,
    payout_id bigint,
    check ((payment_id is null) <> (payout_id is null))
);
insert into settlement_next (order_id, outcome, payment_id) select order_id, outcome, payment_id from settlement;
drop table settlement;
alter table settlement_next rename to settlement;

-- 1 for a refund that our own funds are not for: it goes out of the depository once its deposit is final.
alter table due add column vault bigint not null default 0;

-- The transaction that executed it, whoever sent that.
alter table payout add column tx_hash {bytes};

create index vault_deposit_of_order on vault_deposit (order_id);
