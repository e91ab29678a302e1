-- Passes the lock on as if whoever has it had released it.
-- KEYS   as queue.lua says
-- ARGV   as queue.lua says; the token is of no use here
-- Reply  the holder it was taken from; nil if nobody has it

local held, foreign = lease_read(KEYS[1])
foreign = foreign or queue_foreign()
if foreign then return foreign end
if not held then return false end
local holder = lease_holder(KEYS[1], KEYS[2], held)
queue_pass_on()
return holder
