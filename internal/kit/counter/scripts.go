package counter

import "github.com/pointsman/pointsman/internal/kit/redis"

// What is in Redis, all of it in one hash slot:
//
//	pointsman:{pool}:inflight           hash: endpoint → requests of all routers; "" → the epoch
//	pointsman:{pool}:inflight:<router>  hash: endpoint → requests of that router; "" → "<epoch>.<generation>"
//	pointsman:{pool}:routers            sorted set: router → when its lease ends, ms of Redis's clock
//
// The first is the sum of the second kind, kept in step by every script. It has an epoch
// so that a sum which was lost, by eviction or a restart, is noticed by each router, whose
// own key then names another one. Fields at zero are removed. All keys go by themselves
// some time after the last router has.
type scripts struct {
	pick, adjust, replace, renew, end *redis.Script
}

// known begins the scripts that presume an epoch (ARGV[1]) and generation (ARGV[2]).
const known = `
if redis.call('HGET', KEYS[2], '') ~= ARGV[1] .. '.' .. ARGV[2] then return {-1} end
`

// told defines how changes of the own sub-counters are taken over: ARGV from..to hold
// change and endpoint by turns.
const told = `
local function tell(from, to)
  local floored = 0
  for i = from, to, 2 do
    local change, e = tonumber(ARGV[i]), ARGV[i + 1]
    local now = redis.call('HINCRBY', KEYS[2], e, change)
    if now <= 0 then
      redis.call('HDEL', KEYS[2], e)
      if now < 0 then
        floored = floored + 1
        change = change - now
      end
    end
    if change ~= 0 and redis.call('HINCRBY', KEYS[1], e, change) <= 0 then redis.call('HDEL', KEYS[1], e) end
  end
  return floored
end
`

func newScripts() *scripts {
	return &scripts{
		// KEYS sums, own. ARGV epoch, generation, limit, lot (-1: the first), where the
		// candidates begin, changes and endpoints by turns, candidates….
		pick: redis.NewScript(known + told + `
local from = tonumber(ARGV[5])
if redis.call('HGET', KEYS[1], '') ~= ARGV[1] then return {-1} end
local floored = 0
if from > 6 then floored = tell(6, from - 1) end
local counts = redis.call('HMGET', KEYS[1], unpack(ARGV, from))
local limit, lot = tonumber(ARGV[3]), tonumber(ARGV[4])
local least, ties, k = limit, {}, 0
if limit == 0 then least = math.huge end
for i = 1, #counts do
  local c = counts[i]
  if c then c = c + 0 else c = 0 end -- a number: "10" is not below "9"
  if c < least then
    least, k = c, 1
    ties[1] = i
  elseif c == least and k > 0 then
    k = k + 1
    ties[k] = i
  end
end
if k == 0 then return {0, 0, floored} end
local at = ties[1]
if lot >= 0 then at = ties[lot % k + 1] end
local e = ARGV[from + at - 1]
redis.call('HINCRBY', KEYS[2], e, 1)
return {at, redis.call('HINCRBY', KEYS[1], e, 1), floored}
`),
		// KEYS sums, own. ARGV epoch, generation, then change and endpoint by turns.
		adjust: redis.NewScript(known + told + `
if redis.call('HGET', KEYS[1], '') ~= ARGV[1] then return {-1} end
return {0, tell(3, #ARGV)}
`),
		// KEYS sums, own, routers. ARGV router, generation, lease in ms, memory in ms, an
		// epoch should there be none, then requests and endpoint by turns.
		replace: redis.NewScript(`
local epoch, token = redis.call('HGET', KEYS[1], ''), redis.call('HGET', KEYS[2], '')
local was = {}
if token then
  local of, generation = string.match(token, '^(.*)%.(%d+)$')
  if tonumber(generation) >= tonumber(ARGV[2]) then return {-1} end
  if of == epoch then
    local all = redis.call('HGETALL', KEYS[2])
    for i = 1, #all, 2 do
      if all[i] ~= '' then was[all[i]] = tonumber(all[i + 1]) end
    end
  end
end
-- The first write is one that a full Redis refuses: after a DEL it would let the rest pass,
-- and look as if it took writes.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[3], string.format('%d', now + ARGV[3]), ARGV[1])
if not epoch then
  epoch = ARGV[5]
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], '', epoch)
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], '', epoch .. '.' .. ARGV[2])
local function add(e, change)
  if change ~= 0 and redis.call('HINCRBY', KEYS[1], e, change) <= 0 then redis.call('HDEL', KEYS[1], e) end
end
for i = 6, #ARGV, 2 do
  local requests, e = tonumber(ARGV[i]), ARGV[i + 1]
  redis.call('HSET', KEYS[2], e, requests)
  add(e, requests - (was[e] or 0))
  was[e] = nil
end
for e, requests in pairs(was) do add(e, -requests) end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
return {0, epoch, redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now))}
`),
		// KEYS sums, own, routers. ARGV epoch, generation, router, lease in ms, memory in ms.
		renew: redis.NewScript(known + `
if redis.call('HGET', KEYS[1], '') ~= ARGV[1] then return {-1} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[3], string.format('%d', now + ARGV[4]), ARGV[3])
-- Were Redis's clock set back by much, the dead would live for as long.
for _, r in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], string.format('(%d', now + ARGV[5]), '+inf')) do
  redis.call('ZADD', KEYS[3], string.format('%d', now + ARGV[4]), r)
end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[5]) end
return {0, redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', now))}
`),
		// KEYS sums, that router's, routers. ARGV router, "1" to end one that is alive.
		end: redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = redis.call('ZSCORE', KEYS[3], ARGV[1])
if ends and tonumber(ends) > now and ARGV[2] ~= '1' then return {0, 0} end
local freed, all = 0, redis.call('HGETALL', KEYS[2])
local epoch, token = redis.call('HGET', KEYS[1], ''), ''
for i = 1, #all, 2 do
  if all[i] == '' then token = all[i + 1] end
end
if epoch and string.match(token, '^(.*)%.%d+$') == epoch then
  for i = 1, #all, 2 do
    if all[i] ~= '' then
      local requests = tonumber(all[i + 1])
      freed = freed + requests
      if redis.call('HINCRBY', KEYS[1], all[i], -requests) <= 0 then redis.call('HDEL', KEYS[1], all[i]) end
    end
  end
end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return {0, freed}
`),
	}
}
