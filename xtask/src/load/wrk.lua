-- What wrk asks for, and what it notes of the answers.
-- Arguments: the part (start, describe, both), the run, the folder of the notes, the token.

local threads = 0

function setup(thread)
   threads = threads + 1
   thread:set("number", threads)
end

function init(args)
   part, run, folder = args[1], args[2], args[3]
   headers = {
      ["Authorization"] = "Bearer " .. args[4],
      ["Content-Type"] = "application/json",
   }
   local notes = folder .. "/" .. part .. "-" .. number
   confirmed = assert(io.open(notes .. ".confirmed", "w"))
   refused = assert(io.open(notes .. ".refused", "w"))
   asked, started, known = 0, 0, {}
   local before = io.open(folder .. "/known")
   if before then
      for id in before:lines() do
         known[#known + 1] = id
      end
      before:close()
   end
end

local function start()
   started = started + 1
   local id = run .. "-" .. part .. "-" .. number .. "-" .. started
   local body = '{"workflow_type":"load.test","workflow_id":"' .. id .. '"}'
   return wrk.format("POST", "/api/workflows", headers, body)
end

local function describe()
   local id = known[1 + asked % #known]
   return wrk.format("GET", "/api/workflows/" .. id, headers)
end

function request()
   asked = asked + 1
   if part == "describe" or (part == "both" and asked % 2 == 0) then
      return describe()
   end
   return start()
end

function response(status, _, body)
   if status == 201 then
      confirmed:write(body:match('"workflow_id":"([^"]+)"'), "\n")
   elseif status ~= 200 then
      refused:write(status, " ", (body:sub(1, 200):gsub("%s+", " ")), "\n")
   end
end

function done(summary, latency)
   local errors = summary.errors
   print(string.format(
      '{"requests":%d,"microseconds":%d,"p50":%d,"p99":%d,"max":%d,"status":%d,"broken":%d}',
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      latency.max, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout))
end
