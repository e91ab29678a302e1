-- Gives up a tick that is not finished, only for the one who has it: at once, or after a pause.
-- KEYS   the lock
-- ARGV   token, pause in ms (0: none)
-- Reply  1 released, 0 it is another's or nobody's

local held = lease_read(KEYS[1])
if not held or held.token ~= ARGV[1] then return 0 end
if ARGV[2] ~= '0' then
  local set = redis.pcall('SET', KEYS[1], 'pause:' .. held.fence, 'PX', ARGV[2])
  -- Without room for the pause the others need not wait for it.
  if not lease_refused(set) then return 1 end
end
return redis.call('DEL', KEYS[1])
