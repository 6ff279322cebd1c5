-- The end of the time in which a fast fill's deposit is expected, on its chain's clock. Until now that was the order's
-- deadline; fast fills under way get thirty minutes from when they were asked for.
alter table fast_fill add column window_ends bigint not null default 0;
update fast_fill set window_ends = created_at + 1800000;
update loss set deadline = (select f.window_ends from fast_fill f where f.order_id = loss.order_id)
    where state = 'missing' and exists (select 1 from fast_fill f join ledger_hold h on h.kind = 'fast-fill'
    and h.subject = f.request_id and h.state = 'open' where f.order_id = loss.order_id and f.voided = 0);

-- The chain of a fast fill's deposit that is final and whose worth is not known: it is looked at again at every block.
alter table fast_fill add column unpriced_on bigint;
create index fast_fill_unpriced on fast_fill (unpriced_on) where unpriced_on is not null;

-- App fees that a sponsor paid while its balance stood for fast fills, or while it owed: the hold on the app's balance.
create table app_fee_hold (
    hold_id text primary key,
    sponsor {bytes} not null
);
create index app_fee_hold_of on app_fee_hold (sponsor);

-- The sponsor's holds that were open at that moment.
create table app_fee_hold_wait (
    hold_id text not null,
    fast_fill_hold text not null,
    primary key (hold_id, fast_fill_hold)
);
create index ledger_hold_fast_fills on ledger_hold (wallet) where state = 'open' and kind = 'fast-fill';
