-- The balance that a sweep for an order was decided for. A reorg may put the sweep before the payment that it was for: then it
-- brings less, and says nothing about the order. Null for sweeps of other purposes, and for those from before.
alter table deposit_sweep add column expected text;
