import type { Device } from './accounts.ts'
import type { Homeserver } from './homeserver.ts'
import { type Json, Refusal } from './room.ts'

/** A request as the routes see it. */
export interface Asked {
  readonly method: string
  readonly path: string
  readonly params: readonly string[]
  readonly query: URLSearchParams
  readonly token: string | undefined
  readonly device: Device | undefined
  readonly agent: string
  readonly type: string
  readonly body: Json
  readonly raw: Buffer
}

/** One route of the server. */
export interface Route {
  readonly method: string
  readonly pattern: RegExp
  readonly isPublic?: boolean
  run(server: Homeserver, asked: Asked): unknown
}

/** A route by its method and its path below `/_matrix/client/v3`; `:x` stands for a part. */
export function route(key: string, run: Route['run'], isPublic = false): Route {
  const [method = '', path = ''] = key.split(' ')
  const whole = path.startsWith('/_matrix') ? path : `/_matrix/client/v3${path}`
  const pattern = new RegExp(`^${whole.replace(/:\w+/g, '([^/]+)')}/?$`)
  return { method, pattern, isPublic, run }
}

/** The account that asks. The server has refused all others before. */
export function who({ device }: Asked): Device {
  if (!device) throw new Refusal(401, 'M_MISSING_TOKEN')
  return device
}
