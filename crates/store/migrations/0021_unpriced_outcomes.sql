-- App fees of a fill are credited at the worth of the moment that it was decided; where prices were not known then, later.
-- 1 until that is done.
alter table fill_outcome add column unpriced bigint not null default 0 check (unpriced in (0, 1));
create index fill_outcome_unpriced on fill_outcome (payment_id) where unpriced = 1;
