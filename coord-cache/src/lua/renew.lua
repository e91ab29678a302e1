-- Lets a placeholder stand for longer while its load is under way.
-- KEYS   value
-- ARGV   placeholder, fill_ms
-- Reply  1 renewed, 0 something else is there, or nothing

local head = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if type(head) == 'table' then return head end
if head ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
