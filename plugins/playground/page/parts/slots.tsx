import { createContext, lazy, Suspense, useContext, useMemo } from 'react'
import type { UIComponents } from 'oracle-runtime-client'
import { isThere, type Brought } from '../brought.ts'
import type { Oracle } from '../oracle.ts'

const BroughtView = lazy(async () => ({
  default: (await import('../views/brought.tsx')).BroughtView,
}))

/** What a part of the chat needs to show what plugins bring to it. */
export interface Bringing {
  readonly brought: readonly Brought[]
  readonly oracle: Oracle
  readonly announce: (sentence: string) => void
}

const BringingContext = createContext<Bringing | undefined>(undefined)

/** Gives the places of the chat what plugins bring to them. */
export const BringingProvider = BringingContext.Provider

const nowhere: readonly string[] = []

interface SlotsProps {
  readonly place: 'answer' | 'composer'
  readonly sessionId: string
  /** What it stands beside. */
  readonly about: Readonly<Record<string, unknown>>
}

/** What plugins bring to a place of the chat. */
export function Slots({ place, sessionId, about }: SlotsProps) {
  const { brought = [], ...rest } = useContext(BringingContext) ?? {}
  const { oracle, announce } = rest as Bringing
  const own = brought.filter((view) => view.place === place && isThere(view))
  if (own.length === 0) return null
  return (
    <div className={`slots ${place}`}>
      <Suspense>
        {own.map((view) => (
          <BroughtView
            key={view.name}
            {...{ view, oracle, sessionId, announce, about }}
            route={nowhere}
          />
        ))}
      </Suspense>
    </div>
  )
}

/** The components that plugins bring, by the name by which the agent shows each. */
export function useBroughtComponents({ brought, oracle, announce }: Bringing): UIComponents {
  return useMemo(
    () =>
      Object.fromEntries(
        brought
          .filter((view) => view.component !== undefined && isThere(view))
          .map((view) => {
            const Shown = ({ args, sessionId }: { args: object; sessionId: string }) => (
              <Suspense>
                <BroughtView
                  {...{ view, oracle, sessionId, announce }}
                  about={{ ...args }}
                  route={nowhere}
                />
              </Suspense>
            )
            return [view.component, Shown]
          }),
      ),
    [brought, oracle, announce],
  )
}
