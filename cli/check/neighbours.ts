import { once } from 'node:events'
import { connect } from 'node:net'
import type { EnvSource } from '../../core/manifest/env.ts'
import { openBus } from '../../core/runtime/store/channels/bus-line.ts'
import type { ModelProviders } from '../model-providers.ts'
import { fault, type Finding, ok, reasonOf, warning } from './finding.ts'

const patienceMs = 5_000
const quiet = () => {}
const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }

/** Asks the Redis of REDIS_URL. */
export async function checkRedis(url: string): Promise<Finding> {
  const { Redis } = await import('ioredis')
  const redis = new Redis(url, {
    ...{ lazyConnect: true, maxRetriesPerRequest: 0, enableOfflineQueue: false },
    ...{ connectTimeout: patienceMs, commandTimeout: patienceMs, retryStrategy: () => null },
  })
  let why: unknown
  redis.on('error', (error: Error) => (why ??= error))
  try {
    await redis.connect()
    await redis.ping()
    return ok('REDIS_URL', 'Redis answers')
  } catch (error) {
    return fault(
      'REDIS_URL',
      `Redis does not answer: ${reasonOf(why ?? error)}. Each replica would count its rate limits alone.`,
      'Start that Redis, or correct or unset REDIS_URL.',
    )
  } finally {
    redis.disconnect()
  }
}

/** Connects to the bus of BUS_URL, and lets go of it. */
export async function checkBus(url: string): Promise<Finding> {
  try {
    const calls = { onMessage: quiet, onGap: quiet, onLost: quiet }
    const bus = await openBus({ url, space: 'oracle-check', log, ...calls })
    try {
      await bus.subscribe(['check'])
    } finally {
      bus.close()
    }
    return ok('BUS_URL', 'the bus answers')
  } catch (error) {
    return fault(
      'BUS_URL',
      `The bus does not answer: ${reasonOf(error)}`,
      'Start that bus, or correct or unset BUS_URL; meanwhile replicas hear each other by the database.',
    )
  }
}

/** Asks whether an oracle of this runtime answers at PUBLIC_URL. */
export async function checkPublicUrl(url: string): Promise<Finding> {
  const remedy = 'Lead PUBLIC_URL to this server: DNS, certificate and proxy.'
  const at = `${url.replace(/\/$/, '')}/health`
  try {
    const response = await fetch(at, { signal: AbortSignal.timeout(patienceMs) })
    if (await isHealth(response)) return ok('PUBLIC_URL', `${url} answers`)
    if ([502, 503, 504].includes(response.status))
      return warning('PUBLIC_URL', `A proxy answers at ${url}, and no server behind it.`, remedy)
    return fault('PUBLIC_URL', `What answers at ${at} (${response.status}) is no oracle.`, remedy)
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
    const why = reasonOf(cause)
    if (why.includes('ECONNREFUSED'))
      return warning('PUBLIC_URL', `Nothing answers at ${url} yet: ${why}.`, remedy)
    return fault('PUBLIC_URL', `${url} cannot be asked: ${why}.`, remedy)
  }
}

/** Whether something listens where the server would. */
export async function checkPort({ HOST, PORT, NODE_ENV }: EnvSource): Promise<Finding> {
  const port = Number(PORT || 3000)
  const host = HOST || (NODE_ENV === 'production' ? '0.0.0.0' : '127.0.0.1')
  if (!(port > 0 && port < 65_536)) return ok('PORT', 'a free one is taken')
  const asked = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host
  const socket = connect({ host: asked, port, timeout: patienceMs })
  try {
    await Promise.race([
      once(socket, 'connect'),
      once(socket, 'timeout').then(() => Promise.reject(new Error('silent'))),
    ])
  } catch {
    return ok('PORT', `${port} is free`)
  } finally {
    socket.destroy()
  }
  if (await isOracle(`http://${asked}:${port}/health`))
    return warning('PORT', `A server of this runtime listens on ${port}.`, 'Stop it first.')
  return fault(
    'PORT',
    `Something else listens on ${host}:${port}.`,
    'Set PORT to a free one, or stop what listens there.',
  )
}

async function isOracle(url: string): Promise<boolean> {
  try {
    return await isHealth(await fetch(url, { signal: AbortSignal.timeout(patienceMs) }))
  } catch {
    return false
  }
}

async function isHealth(response: Response): Promise<boolean> {
  const body: unknown = await response.json().catch(() => undefined)
  return typeof body === 'object' && body !== null && 'runtime' in body && 'signingKey' in body
}

/** Asks the addresses of the models that MODEL names, without a call of a model. */
export async function checkModels(
  providers: ModelProviders,
  { MODEL, MODEL_SMALL }: EnvSource,
  hasOwn: boolean,
): Promise<readonly Finding[]> {
  if (!MODEL)
    return [
      hasOwn
        ? ok('MODEL', 'the app brings its models')
        : warning('MODEL', 'The stand-in answers, which is no model.', 'Set MODEL and its key.'),
    ]
  const names = `${MODEL},${MODEL_SMALL ?? ''}`.split(/[,|]/).map((name) => name.trim())
  const ids = new Set(names.map((name) => name.slice(name.indexOf('=') + 1)).filter(Boolean))
  // The boot refuses a MODEL of more names than these.
  return Promise.all([...ids].slice(0, 100).map((id) => checkModel(providers, id)))
}

async function checkModel(providers: ModelProviders, id: string): Promise<Finding> {
  const { why, isAsked } = await providers.reach(id)
  if (why === undefined)
    return ok('MODEL', isAsked ? `${id}: its address answers` : `${id}: needs no address`)
  return fault(
    'MODEL',
    `${id}: ${providers.safe(why)}`,
    'Correct MODEL, its key or its address; oracle-runtime models lists what the keys reach.',
  )
}
