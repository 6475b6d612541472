import { createContext, createElement, type ReactNode, useContext, useMemo } from 'react'
import type { AgAction, AgActionRender } from '../core/page.ts'
import { createOracleClient, type OracleClient } from '../core/client.ts'
import type { IWalletProps, MintFn, TransactionFn } from '../core/records.ts'
import { useLatest } from './use-latest.ts'

/** The user's wallet, as `OraclesProvider` takes it. */
export interface IOraclesProviderProps {
  /** Who the user is. Another `did` is another user: every chat and every list begins anew. */
  readonly initialWallet: IWalletProps
  /** Signs and broadcasts chain transactions. */
  readonly transactSignX: TransactionFn
  readonly createDelegation: MintFn
  /** Without this function the delegation alone says who calls. */
  readonly createInvocation?: MintFn
  /** The address of a DID resolver (the W3C HTTP binding) by which the page finds oracles. */
  readonly resolverUrl?: string
  /**
   * Whether tokens outlive a reload, encrypted in IndexedDB under keys that nothing can export; by itself where the page came by
   * https or from this machine.
   */
  readonly keepTokens?: boolean
  /** How many of the newest messages a chat reads at first, or `all`, the default. The kit reads 50, unless this says `all`. */
  readonly history?: number | 'all'
  readonly children?: ReactNode
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'

/** What `useOraclesContext` returns. */
export interface IOraclesContextProps {
  readonly wallet: IWalletProps
  readonly transactSignX: TransactionFn
  /** Sends a request with the user's tokens. `url` is a whole address, or a path of the oracle's API. */
  readonly authedRequest: <T>(
    url: string,
    method: Method,
    options?: RequestInit,
    oracleDid?: string,
  ) => Promise<T>
  readonly getDelegation: (oracleDid: string) => Promise<string | null>
  readonly getInvocation: (oracleDid: string) => Promise<string | null>
  readonly agActions: readonly AgAction[]
  readonly registerAgAction: (
    action: AgAction,
    handler: (args: any) => unknown, // any: what the action's `parameters` say
    render?: AgActionRender,
  ) => void
  readonly unregisterAgAction: (name: string) => void
  readonly executeAgAction: (name: string, args: unknown) => Promise<unknown>
  readonly getAgActionRender: (name: string) => AgActionRender | undefined
}

const ClientContext = createContext<OracleClient | null>(null)

/** Gives every hook below it the user's wallet. */
export function OraclesProvider({ children, ...props }: IOraclesProviderProps): ReactNode {
  const { initialWallet: wallet, resolverUrl, keepTokens, history } = props
  const { did } = wallet
  // What is still on its way for one user never asks the wallet of the next one.
  const latest = useLatest(props, did)
  const hasInvocations = !!props.createInvocation
  const client = useMemo(
    () =>
      createOracleClient({
        ...props,
        wallet,
        transactSignX: (messages, memo) => latest.current.transactSignX(messages, memo),
        createDelegation: (oracleDid) => latest.current.createDelegation(oracleDid),
        ...(hasInvocations && {
          createInvocation: (oracleDid) => latest.current.createInvocation!(oracleDid),
        }),
      }),
    [did, hasInvocations, resolverUrl, keepTokens, history],
  )
  return createElement(ClientContext.Provider, { value: client }, children)
}

/** Gives every hook below it a client that the app made itself. */
export function OracleClientProvider(props: {
  client: OracleClient
  children?: ReactNode
}): ReactNode {
  return createElement(ClientContext.Provider, { value: props.client }, props.children)
}

/** The client of the provider above. */
export function useClient(): OracleClient {
  const client = useClientIfAny()
  if (!client) throw new Error('useOraclesContext must be used within a OraclesProvider')
  return client
}

/** The client of the provider above, if there is a provider. */
export const useClientIfAny = (): OracleClient | null => useContext(ClientContext)

/** The wallet, the tokens and the actions of the provider above. */
export function useOraclesContext(): IOraclesContextProps {
  const client = useClient()
  return useMemo(() => contextOf(client), [client])
}

function contextOf(client: OracleClient): IOraclesContextProps {
  const { actions, tokens, wallet, transactSignX } = client
  return {
    wallet,
    transactSignX,
    authedRequest: (url, method, { body, headers, signal } = {}, oracleDid = '') =>
      client.request(oracleDid, url, {
        method,
        body: typeof body === 'string' ? JSON.parse(body) : (body ?? undefined),
        headers: Object.fromEntries(new Headers(headers)),
        signal: signal ?? undefined,
      }),
    getDelegation: async (oracleDid) => (await tokens.get('delegation', oracleDid)) ?? null,
    getInvocation: async (oracleDid) => (await tokens.get('invocation', oracleDid)) ?? null,
    get agActions() {
      return [...actions.values()].map(({ handler: _, render: __, ...action }) => action)
    },
    registerAgAction: (action, handler, render) =>
      void actions.set(action.name, { ...action, handler, render }),
    unregisterAgAction: (name) => void actions.delete(name),
    executeAgAction: async (name, args) =>
      (await import('../later/schema.ts')).executed(actions, name, args),
    getAgActionRender: (name) => actions.get(name)?.render,
  }
}
