-- Tells who has the lock; writes nothing.
-- KEYS   lock, record
-- Reply  the holder; nil if nobody has it

local held, foreign = lease_read(KEYS[1])
if foreign then return foreign end
return held and lease_holder(KEYS[1], KEYS[2], held) or false
