import type { ViewHost } from 'oracle-runtime-client/view'
import type { Brought } from './brought.ts'
import { ask, type Oracle } from './oracle.ts'
import { go } from './route.ts'
import { words } from './words.ts'

const kept = new Map<string, Map<string, unknown>>()

/** What changes while a view is shown. */
export interface Around {
  readonly within?: Brought['within']
  readonly sessionId: string
  readonly route: readonly string[]
  readonly announce: (sentence: string) => void
}

/** What a view is given. It reads the page when it asks, so it need not be shown anew. */
export function hostOf(
  name: string,
  oracle: Oracle,
  latest: { readonly current: Around },
): ViewHost {
  const keep = kept.get(name) ?? new Map<string, unknown>()
  kept.set(name, keep)
  return {
    client: oracle.client,
    oracleDid: oracle.did,
    get sessionId() {
      return latest.current.sessionId
    },
    session: (id) => go('chat', id),
    get route() {
      return latest.current.route
    },
    within: latest.current.within,
    go: (...route) => go(name, ...route),
    ask,
    get theme() {
      return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'
    },
    locale: navigator.language,
    words,
    announce: (sentence) => latest.current.announce(sentence),
    keep,
  }
}
