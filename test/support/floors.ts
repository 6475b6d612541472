/**
 * The rooms of the runtime, from the ground up. A room imports only from floors below its own, by values and by types:
 * rooms that stand on one floor do not know each other.
 */
export const floors: readonly (readonly string[])[] = [
  ['base', 'watchdog', 'idle'],
  ['store/channels', 'store/sqlite'],
  ['store', 'outbound', 'variables'],
  ['audit', 'told', 'telemetry'],
  ['http/read', 'model/transport', 'model/usage'],
  ['model/sdk'],
  ['http/answer', 'model'],
  ['http/limits', 'model/embed', 'model/window'],
  ['http/routes', 'model/aside'],
  ['http'],
  ['auth/did'],
  ['auth/token'],
  ['auth/grants'],
  ['auth/personal'],
  ['auth'],
  ['notices', 'files', 'leases'],
  ['turns', 'boot'],
  ['turns/search', 'turns/functions'],
  ['turns/indexes'],
  ['turns/journal', 'attachments'],
  ['turns/events', 'turns/waiting', 'turns/sessions', 'jobs'],
  ['turns/redaction', 'turns/branches'],
  ['turns/said', 'turns/gates', 'turns/clients', 'turns/started'],
  ['turns/carry'],
  ['turns/wire'],
  ['agent/turn', 'channel'],
  ['agent/state', 'agent/ask'],
  ['agent/tools', 'agent/window'],
  ['agent', 'agent/outside', 'kept', 'retention'],
  // The files that stand in no room are the composition, which puts the rooms together.
  [''],
]

const runtime = 'core/runtime/'

/** The room of a file of the runtime; undefined for any other file. */
export function roomOf(path: string): string | undefined {
  if (!path.startsWith(runtime)) return undefined
  return path.slice(runtime.length).split('/').slice(0, -1).join('/')
}

const floorOf = new Map(
  floors.flatMap((rooms, floor) => rooms.map((room) => [room, floor] as const)),
)

/** Why a file may not import another one, as far as floors are concerned. */
export function wrongFloor(path: string, target: string): string | undefined {
  const [from, to] = [roomOf(path), roomOf(target)]
  if (from === undefined || to === undefined || from === to) return undefined
  for (const room of [from, to])
    if (!floorOf.has(room))
      return `the room ${room} stands on no floor: give it one in test/support/floors.ts`
  const [own, other] = [floorOf.get(from) ?? 0, floorOf.get(to) ?? 0]
  if (other < own) return undefined
  const where = other === own ? `stands on the same floor as ${to}` : `stands below ${to}`
  return `${from} ${where}, and a room imports only from floors below it`
}

/** Every circle of files that import each other's values, as `a.ts -> b.ts -> a.ts`; each circle once. */
export function circles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = []
  const done = new Set<string>()
  const walk = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file)
    if (start >= 0) {
      found.push([...path.slice(start), file].join(' -> '))
      return
    }
    if (done.has(file)) return
    for (const next of imports.get(file) ?? []) walk(next, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) walk(file, [])
  return found
}
