import { networkInterfaces } from 'node:os'

/**
 * What `--lan` does before an app is made: it listens at every address of this machine, and says that it is for trying where
 * nothing else is said. Routes of the operator still answer this machine alone.
 */
export function openToNetwork(env: NodeJS.ProcessEnv = process.env): void {
  env.HOST = '0.0.0.0'
  env.NODE_ENV ||= 'development'
}

/** The addresses at which others in the network of this machine reach it, as far as the system names them. */
export function networkAddresses(port: number, interfaces = networkInterfaces()): string[] {
  return Object.values(interfaces)
    .flatMap((one) => one ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => `http://${address}:${port}`)
}
