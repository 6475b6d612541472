import { RuntimeError } from '../errors.ts'
import type { EnvSource } from './env.ts'

/** Every word that NODE_ENV takes. */
export const environments = ['development', 'test', 'production'] as const
/** A word that NODE_ENV takes. */
export type Environment = (typeof environments)[number]

/** What NODE_ENV says, or development when NODE_ENV is unset. Undefined when NODE_ENV has another word. */
export function environmentOf({ NODE_ENV }: EnvSource): Environment | undefined {
  return NODE_ENV ? environments.find((word) => word === NODE_ENV) : 'development'
}

/** Whether the app may generate secrets and load helpers for authors. With an unknown word in NODE_ENV it may not. */
export function isForAuthors(source: EnvSource): boolean {
  const environment = environmentOf(source)
  return environment === 'development' || environment === 'test'
}

/**
 * The fault when HOST lets other machines reach the server and NODE_ENV is unset; undefined otherwise. Development has open
 * doors because only this machine can reach the server, so an operator who serves others has to set NODE_ENV.
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

/** Whether only this machine can reach a server that listens at this host. */
const isLoopback = (host: string): boolean =>
  /^(localhost|(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i.test(host)
