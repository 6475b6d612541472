import { createContext, type ReactNode, useContext } from 'react'
import { OracleClientProvider } from '../react/provider.ts'
import type { ViewHost } from './host.ts'

const HostContext = createContext<ViewHost | undefined>(undefined)

/** The props of `ViewRoot`. */
export interface ViewRootProps {
  readonly host: ViewHost
  readonly children?: ReactNode
}

/** Gives the parts of a view the page around them, and the hooks of the library its client. */
export function ViewRoot({ host, children }: ViewRootProps): ReactNode {
  return (
    <HostContext.Provider value={host}>
      <OracleClientProvider client={host.client}>{children}</OracleClientProvider>
    </HostContext.Provider>
  )
}

/** The page around a view, below `ViewRoot`. */
export function useHost(): ViewHost {
  const host = useContext(HostContext)
  if (!host) throw new Error('A part of a view stands outside of <ViewRoot host={host}>.')
  return host
}
