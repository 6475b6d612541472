import { RuntimeError } from '../errors.ts'
import type { EnvSource } from './env.ts'

/** Every word that NODE_ENV takes. */
export const environments = ['development', 'test', 'production'] as const
/** One of those words. */
export type Environment = (typeof environments)[number]

/** What NODE_ENV says, and development where it is unset. Undefined when it is none of the words. */
export function environmentOf({ NODE_ENV }: EnvSource): Environment | undefined {
  return NODE_ENV ? environments.find((word) => word === NODE_ENV) : 'development'
}

/** Whether secrets may be made up and helpers for authors may load. With an unknown word in NODE_ENV they may not. */
export function isForAuthors(source: EnvSource): boolean {
  const environment = environmentOf(source)
  return environment === 'development' || environment === 'test'
}

/**
 * The fault of an operator who lets others reach the server and leaves NODE_ENV unset. Development is open to this
 * machine because only this machine can reach it, so the fault asks what the server is for.
 */
export function unsaidEnvironment(
  { NODE_ENV }: EnvSource,
  host: string | undefined,
): RuntimeError | undefined {
  if (NODE_ENV || host === undefined || isLoopback(host)) return undefined
  return new RuntimeError(
    'ENV_MISSING',
    `HOST is "${host}", where others than this machine can reach the server, and NODE_ENV is unset.`,
    {
      hint: 'Set NODE_ENV=production to serve others, or NODE_ENV=development to try it in your network.',
    },
  )
}

/** Whether only this machine reaches what listens there. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i.test(host)
