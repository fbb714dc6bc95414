-- The messages that a run has not taken stay where they are when it continues as new.

-- A message belongs to the run that has taken it, and until then to the first run of those
-- that continue each other: whose inbox it is. Views that the new name breaks are made anew
-- after this, and those of an application that are broken are its own affair.
pragma writable_schema = on;
alter table perdure_messages rename column run to holder;
pragma writable_schema = off;

alter table perdure_heads add column inbox integer;                   -- the run that holds what it has not taken: null is itself, -1 none, as it was continued
alter table perdure_heads add column past  integer not null default 0; -- the messages up to this number were taken before it began

alter table perdure_gone add column inbox integer; -- that of the head
