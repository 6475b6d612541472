import { type ComponentType, createElement, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { type IOraclesProviderProps, OraclesProvider } from 'oracle-runtime-client'
import {
  createGuestWallet,
  createPasskeyWallet,
  createSessionWallet,
  openPasskeyWallet,
  signInWithPasskey,
} from 'oracle-runtime-client/passkey'
import * as kit from 'oracle-runtime-client/ui'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import 'oracle-runtime-client/ui/style.css'

const query = new URLSearchParams(location.search)
const baseUrl = query.get('server')!
const oracleDid = query.get('oracle')!
const sessionId = query.get('session') ?? undefined
const history = query.get('history') === 'all' ? 'all' : undefined
const keepTokens = query.has('forgetful') ? false : undefined
const overrides = { baseUrl }
const root = createRoot(document.getElementById('root')!)

/** The kit's own parts, each in a frame of the page's. */
const parts: { readonly [Name in keyof kit.Components]-?: unknown } = {
  ...{ ApprovalCard: kit.ApprovalCard, Attachments: kit.Attachments, Composer: kit.Composer },
  ...{ BranchPicker: kit.BranchPicker, ConnectionLine: kit.ConnectionLine, Message: kit.Message },
  ...{ ErrorCard: kit.ErrorCard, JumpToEnd: kit.JumpToEnd, MessageActions: kit.MessageActions },
  ...{ ModelPicker: kit.ModelPicker, PaymentCard: kit.PaymentCard, Progress: kit.Progress },
  ...{ Reasoning: kit.Reasoning, Suggestions: kit.Suggestions, ThreadList: kit.ThreadList },
  ...{ ToolCard: kit.ToolCard, Waiting: kit.Waiting },
}
const framed = Object.fromEntries(
  Object.entries(parts).map(([name, part]) => [
    name,
    (props: object) =>
      createElement(
        'div',
        { className: `own own-${name}` },
        createElement(part as ComponentType, props),
      ),
  ]),
)
const components: Partial<kit.Components> | undefined = query.has('framed') ? framed : undefined

/** Shows the chat of each wallet; a test calls it, or asks for a wallet in the page's address. */
function show(...wallets: Omit<IOraclesProviderProps, 'children'>[]): void {
  root.render(
    <StrictMode>
      {wallets.map((wallet, nth) => (
        <OraclesProvider key={nth} {...wallet} history={history} keepTokens={keepTokens}>
          <kit.OracleChat {...{ oracleDid, overrides, sessionId, components }} />
        </OraclesProvider>
      ))}
    </StrictMode>,
  )
}

Object.assign(window, {
  page: {
    ...{ show, createGuestWallet, createPasskeyWallet, createSessionWallet },
    ...{ openPasskeyWallet, signInWithPasskey, createDevelopmentWallet },
    options: { rpName: 'A test', userName: 'Ada', oracles: [{ did: oracleDid, baseUrl }] },
    oracleDid,
    parts: Object.keys(parts),
  },
})
const seed = query.get('seed')
if (seed)
  show(
    await createDevelopmentWallet({
      seed: Uint8Array.from(atob(seed), (character) => character.charCodeAt(0)),
    }),
  )
