import type { Redis } from 'ioredis'
import type { Log } from '../../../plugin.ts'

/** A connection to Redis that never holds up a request: a command that cannot go out now fails at once. */
export async function openRedis(url: string | undefined, log: Log): Promise<Redis | undefined> {
  if (url === undefined) return undefined
  const { Redis } = await import('ioredis') // most servers never need it
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    connectTimeout: 2000,
  })
  redis.on('error', (error: Error) => log.debug({ err: error }, 'Redis'))
  await ready(redis, 1000) // so that the first requests are counted with the other replicas'
  return redis
}

/** Waits until Redis answers, but not long: without Redis the limits count in memory. */
function ready(redis: Redis, patienceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, patienceMs)
    redis.once('ready', () => (clearTimeout(timer), resolve()))
  })
}
