import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(<Messenger host={host} />)
  return () => root.unmount()
}
export default show

interface About {
  readonly userId: string
}

interface Account {
  readonly userId: string
}

interface Room {
  readonly roomId: string
  readonly kind: 'direct' | 'group'
}

/** How the account stands; only operators are told. */
interface Status {
  readonly state: string
  readonly cause?: string
  readonly holder?: string
  readonly rooms?: number
  readonly queue?: number
  readonly undecryptable?: number
}

interface Code {
  readonly code: string
  readonly expiresAt: string
}

/** How often the page looks whether a code was used, while one is open. */
const lookMs = 3_000

/** The person's accounts on the messaging server: linked by a code, shown, and let go. */
function Messenger({ host }: { host: ViewHost }) {
  const [about, setAbout] = useState<About>()
  const [accounts, setAccounts] = useState<readonly Account[]>()
  const [rooms, setRooms] = useState<readonly Room[]>([])
  const [code, setCode] = useState<Code>()
  const [status, setStatus] = useState<Status>()
  const [fault, setFault] = useState('')
  const failed = (error: Error) => setFault(error.message)
  const read = async () => {
    setAbout(await host.ask<About>('/messaging'))
    const linked = await host.ask<{ accounts: Account[] }>('/messaging/identity')
    setAccounts(linked.accounts)
    setRooms((await host.ask<{ rooms: Room[] }>('/messaging/rooms')).rooms)
    setFault('')
    // Whoever is no operator sees the page without it.
    await host.ask<Status>('/messaging/status').then(setStatus, () => {})
    return linked.accounts
  }
  useEffect(() => void read().catch(failed), [])
  useEffect(() => {
    if (!code || !accounts) return
    const before = accounts.length
    const look = async () => {
      if (Date.now() > Date.parse(code.expiresAt)) return setCode(undefined)
      if ((await read()).length > before) {
        setCode(undefined)
        host.announce('The account is linked.')
      }
    }
    const timer = setInterval(() => void look().catch(failed), lookMs)
    return () => clearInterval(timer)
  }, [code])
  const unlink = async (userId: string) => {
    await host.ask(`/messaging/identity/${encodeURIComponent(userId)}`, { method: 'DELETE' })
    host.announce(`${userId} is no longer linked.`)
    await read()
  }
  const newCode = async () => setCode(await host.ask<Code>('/messaging/links', { method: 'POST' }))
  return (
    <>
      <p className="lead">Write to this oracle in your messenger, as the person you are here.</p>
      {fault && <p role="alert">{fault}</p>}
      <section className="card" aria-labelledby="linked">
        <h2 id="linked">Your accounts</h2>
        {accounts?.length === 0 && <p>No account is linked yet.</p>}
        <ul aria-label="Linked accounts">
          {accounts?.map(({ userId }) => (
            <li key={userId}>
              <code>{userId}</code>{' '}
              <button
                type="button"
                className="quiet"
                onClick={() => void unlink(userId).catch(failed)}
              >
                Unlink
              </button>
            </li>
          ))}
        </ul>
        {rooms.length > 0 && (
          <p>
            {rooms.length === 1
              ? 'The oracle talks with you in one room.'
              : `The oracle talks with you in ${rooms.length} rooms.`}
          </p>
        )}
      </section>
      {about && (
        <section className="card" aria-labelledby="link">
          <h2 id="link">Link an account</h2>
          <p>
            Begin a direct conversation with <code>{about.userId}</code>, then write it the line
            that you get here. Give it to nobody else.
          </p>
          <button type="button" onClick={() => void newCode().catch(failed)}>
            Get a code
          </button>
          {code && (
            <p role="status">
              <code>!link {code.code}</code>, until {new Date(code.expiresAt).toLocaleTimeString()}
            </p>
          )}
        </section>
      )}
      {status && <Standing status={status} />}
    </>
  )
}

function Standing({ status }: { status: Status }) {
  const { state, cause, holder, rooms = 0, queue = 0, undecryptable = 0 } = status
  return (
    <section className="card" aria-labelledby="standing">
      <h2 id="standing">The oracle’s account</h2>
      <p>
        {state}
        {cause !== undefined && `: ${cause}`}
        {holder !== undefined && `, held by ${holder}`}
      </p>
      <p>
        Rooms: {rooms}. Messages that wait: {queue}. Messages that could not be read:{' '}
        {undecryptable}.
      </p>
    </section>
  )
}
