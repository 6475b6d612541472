import type { OracleClient } from '../core/client.ts'
import { Store } from '../core/store.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

type Call = (argument?: unknown) => Promise<void>

/** Code that comes late: it makes the calls of a thing, and tells what becomes known of the thing. */
interface Late<Of, Snapshot, Calls> {
  open(client: OracleClient, of: Of, tell: (part: Partial<Snapshot>) => void): Calls
}

/** Something whose code comes when a component first looks, or calls. */
class LateStore<Snapshot> extends Store<Snapshot> {
  readonly calls: Record<string, Call> = {}

  constructor(
    initial: Snapshot,
    names: readonly string[],
    open: (tell: (part: Partial<Snapshot>) => void) => Promise<Record<string, Call>>,
  ) {
    super(initial)
    for (const name of names)
      this.calls[name] = async (argument) =>
        (await open((part) => this.set(part)))[name]?.(argument)
  }

  protected mount(): void {
    void this.calls.read?.()
  }
}

/** What is known of a thing whose code comes late, and its calls. `read` is called when a component first looks. */
export function useLate<Of, Snapshot, Calls, Name extends keyof Calls & string>(
  of: Of,
  initial: Snapshot,
  names: readonly ['read', ...Name[]],
  load: () => Promise<Late<Of, Snapshot, Calls>>,
): Snapshot & Pick<Calls, Name> {
  const client = useClient()
  const store = client.once(
    JSON.stringify([names, of]),
    () =>
      new LateStore(
        initial,
        names,
        // The names are names of its calls.
        async (tell) => (await load()).open(client, of, tell) as Record<string, Call>,
      ),
  )
  return { ...useStore(store), ...(store.calls as Pick<Calls, Name>) }
}
