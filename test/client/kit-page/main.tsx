import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { type IOraclesProviderProps, OraclesProvider } from 'oracle-runtime-client'
import {
  createGuestWallet,
  createPasskeyWallet,
  createSessionWallet,
  openPasskeyWallet,
  signInWithPasskey,
} from 'oracle-runtime-client/passkey'
import { OracleChat } from 'oracle-runtime-client/ui'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'
import 'oracle-runtime-client/ui/style.css'

const query = new URLSearchParams(location.search)
const baseUrl = query.get('server')!
const oracleDid = query.get('oracle')!
const sessionId = query.get('session') ?? undefined
const history = query.get('history') === 'all' ? 'all' : undefined
const keepTokens = query.has('forgetful') ? false : undefined
const root = createRoot(document.getElementById('root')!)

/** Shows the chat of a wallet; a test calls it, or asks for a wallet in the page's address. */
function show(wallet: Omit<IOraclesProviderProps, 'children'>): void {
  root.render(
    <StrictMode>
      <OraclesProvider {...wallet} history={history} keepTokens={keepTokens}>
        <OracleChat oracleDid={oracleDid} overrides={{ baseUrl }} sessionId={sessionId} />
      </OraclesProvider>
    </StrictMode>,
  )
}

Object.assign(window, {
  page: {
    ...{ show, createGuestWallet, createPasskeyWallet, createSessionWallet },
    ...{ openPasskeyWallet, signInWithPasskey, createDevelopmentWallet },
    options: { rpName: 'A test', userName: 'Ada', oracles: [{ did: oracleDid, baseUrl }] },
    oracleDid,
  },
})
const seed = query.get('seed')
if (seed)
  show(
    await createDevelopmentWallet({
      seed: Uint8Array.from(atob(seed), (character) => character.charCodeAt(0)),
    }),
  )
