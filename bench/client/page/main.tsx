import { createParser } from 'eventsource-parser'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { OraclesProvider, renderMessageContent, useChat } from 'oracle-runtime-client'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'

// Both pages show the same text from the same server, one with the library and one with hand-written code.
const query = new URLSearchParams(location.search)
const baseUrl = query.get('server')!
const sessionId = query.get('session')!
const seed = Uint8Array.from(atob(query.get('seed')!), (character) => character.charCodeAt(0))
const wallet = await createDevelopmentWallet({ seed })
const { did: oracleDid } = await (await fetch(`${baseUrl}/.well-known/oracle.json`)).json()

/** Begins a session as the page's user. */
async function begin(): Promise<string> {
  const session = await fetch(`${baseUrl}/sessions`, {
    method: 'POST',
    headers: await credentials(),
  })
  return (await session.json()).sessionId
}

async function credentials(): Promise<Record<string, string>> {
  return {
    authorization: `Bearer ${(await wallet.createInvocation(oracleDid)).serialized}`,
    'x-auth-type': 'ucan',
    'x-ucan-delegation': (await wallet.createDelegation(oracleDid)).serialized,
  }
}

const measured = { commits: 0, isReady: false, isDone: false, text: '', start() {} }
Object.assign(window, { measured, begin })
const useCommitCount = () => useLayoutEffect(() => void measured.commits++)

function Library() {
  const { messages, sendMessage, status, isLoading } = useChat({
    oracleDid,
    sessionId,
    overrides: { baseUrl },
    onPaymentRequiredError() {},
  })
  useCommitCount()
  useEffect(() => {
    if (isLoading) return
    measured.isReady = true
    measured.start = () => void sendMessage('Go')
  }, [isLoading, sendMessage])
  useEffect(() => {
    if (status !== 'ready' || messages.length < 2) return
    measured.text = String(messages[1]!.content)
    measured.isDone = true
  }, [status, messages])
  return messages.map(({ id, content }) => <p key={id}>{renderMessageContent(content)}</p>)
}

/** The smallest page that streams: a fetch, a parser, and a state that is set every 50 ms. */
function Baseline() {
  const [messages, setMessages] = useState<string[]>([])
  const text = useRef('')
  useCommitCount()
  useEffect(() => {
    async function run() {
      setMessages(['Go', ''])
      const flush = setInterval(() => setMessages(['Go', text.current]), 50)
      const response = await fetch(`${baseUrl}/messages/${sessionId}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(await credentials()) },
        body: JSON.stringify({ message: 'Go' }),
      })
      const parser = createParser({
        onEvent({ event, data }) {
          if (event === 'message') text.current += JSON.parse(data).content
        },
      })
      const decoder = new TextDecoder()
      const reader = response.body!.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        parser.feed(decoder.decode(value, { stream: true }))
      }
      clearInterval(flush)
      setMessages(['Go', text.current])
      measured.text = text.current
      measured.isDone = true
    }
    measured.isReady = true
    measured.start = () => void run()
  }, [])
  return messages.map((content, i) => <p key={i}>{content}</p>)
}

const shown = {
  library: (
    <OraclesProvider {...wallet}>
      <Library />
    </OraclesProvider>
  ),
  baseline: <Baseline />,
}[query.get('page')!]
if (shown) createRoot(document.getElementById('root')!).render(shown)
