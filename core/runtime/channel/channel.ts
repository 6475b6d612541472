import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import type { Callers } from '../auth/callers.ts'
import { clientNetwork } from '../http/limits/client-address.ts'
import { readCors, refuseForeign } from '../http/cors.ts'
import type { Http, Upgrade } from '../http/http.ts'
import { Places } from '../http/limits/places.ts'
import { readTarget } from '../http/read/target.ts'
import type { Runs } from '../turns/carry/runs.ts'
import type { Store } from '../store/store.ts'
import type { Framing, ClientFrame } from './framing.ts'
import { channelLimits, type ChannelLimits } from './limits.ts'
import { type Closing, Peer } from './peer.ts'
import { plain } from './plain.ts'
import { type RoomRuns, SessionRooms } from './rooms.ts'
import { sessionOf, socketIo } from './socket-io.ts'
import type { SocketServer } from './socket-server.ts'

/** Where replicas tell each other whose tokens were revoked. */
const revocationChannel = 'kernel_revocations'

export interface ChannelOptions {
  readonly http: Pick<Http, 'upgrade' | 'onShutdown'>
  readonly runs: RoomRuns &
    Pick<Runs, 'clientResult' | 'showApprovals'> & { readonly sessions: OwnSessions }
  readonly bySocket: Callers['bySocket']
  readonly isRevoked: (cids: readonly string[]) => boolean | Promise<boolean>
  readonly store: Pick<Store, 'listen' | 'notify'>
  readonly log: Log
  /** `*`, or origins with commas between. */
  readonly cors: string
  readonly publicUrl?: string
  readonly limits?: Partial<ChannelLimits>
}

interface OwnSessions {
  isOwn(did: string, sessionId: string): Promise<boolean>
}

/** The sockets of clients, in both framings: what happens in their sessions goes out, answers come in. */
export interface Channel {
  /** Begins to listen to other replicas. */
  open(): Promise<void>
  /** A user has revoked a token: every replica closes the sockets that it opened. */
  revoked(did: string): void
  /** How many sockets there are. */
  readonly size: number
  close(): Promise<void>
}

export function createChannel(options: ChannelOptions): Channel {
  const { http, runs, bySocket, isRevoked, store, log } = options
  const limits = { ...channelLimits, ...options.limits }
  const cors = { ...readCors(options.cors), strict: true }
  const ownOrigin = options.publicUrl === undefined ? undefined : new URL(options.publicUrl).origin
  const peers = new Set<Peer>()
  const addresses = new Places(limits.perAddress, 'sockets of this address')
  const users = new Places(limits.perDid, 'sockets of this DID')
  const rooms = new SessionRooms(runs, log)
  let sweeping: NodeJS.Timeout | undefined
  let server: Promise<SocketServer> | undefined
  let stopListening: (() => Promise<void>) | undefined

  const sweep = () => {
    const now = performance.now()
    for (const peer of peers) peer.look(now)
  }

  function take(framing: Framing, sessionOf?: (query: string) => string | undefined): Upgrade {
    return async (req, socket, head, ip) => {
      refuseForeign(cors, req, ownOrigin)
      if (http.onShutdown.aborted) throw http.onShutdown.reason
      const { path, query } = readTarget(req.url ?? '')! // the edge has read it before
      if (framing === socketIo) checkTransport(query)
      const leave = addresses.take(clientNetwork(ip))
      socket.once('close', leave)
      if (socket.destroyed) return leave() // it went before anybody could hear of it
      // What speaks WebSocket is loaded with the first one.
      server ??= import('./socket-server.ts').then(({ createSocketServer }) => createSocketServer())
      const { accept } = await server
      accept(req, socket, head, (ws) => {
        const peer = new Peer({
          ws,
          framing,
          limits,
          ip,
          path,
          sessionId: sessionOf?.(query),
          work,
          onClosed,
          onTooLarge,
          onCut: (_, why) => log.info({ framing: framing.name }, `A socket was cut off: ${why}`),
        })
        peers.add(peer)
        sweeping ??= setInterval(sweep, limits.sweepMs).unref()
        const greeting = framing.greeting?.()
        if (greeting !== undefined) peer.send(greeting)
        if (http.onShutdown.aborted) peer.close('shuttingDown')
      })
    }
  }

  function onClosed(peer: Peer): void {
    peers.delete(peer)
    peer.member?.leave()
    peer.stopShowing?.()
    if (peer.member) rooms.leave(peer, peer.member.sessionId)
    if (peers.size > 0) return
    clearInterval(sweeping)
    sweeping = undefined
  }

  /**
   * A result that is too large cannot be read, so nobody knows whose it is. The client would connect again,
   * be asked again and do the same until the time is over: its calls fail instead.
   */
  function onTooLarge({ asked, member }: Peer): void {
    if (!member) return
    const { did, sessionId } = member
    const error = 'The result is larger than 64 KiB.'
    for (const toolCallId of asked)
      runs
        .clientResult({ did, sessionId, toolCallId, error })
        .catch((err: unknown) => log.warn({ err }, 'A result that is too large was not told of'))
  }

  async function work(peer: Peer, incoming: ClientFrame): Promise<void> {
    try {
      if (incoming.kind === 'auth') await enter(peer, incoming)
      else if (incoming.kind === 'answer') await answer(peer, incoming)
    } catch (error) {
      log.error({ err: error }, 'A frame of a socket could not be worked off')
      peer.close('tryLater')
    }
  }

  /** The first credential opens the session, a later one keeps the socket from ending with it. */
  async function enter(
    peer: Peer,
    { sessionId = peer.sessionId, tokens, approvals }: Entering,
  ): Promise<void> {
    const { framing, ip, path, member: before } = peer
    let user: Awaited<ReturnType<typeof bySocket>>
    try {
      user = await bySocket({ ...tokens, ip, path, lasting: !framing.renews })
    } catch (error) {
      return refuse(peer, error)
    }
    const { did, cids, expiresAt } = user
    const isSame = !before || (before.did === did && before.sessionId === sessionId)
    if (sessionId === undefined || !isSame || !(await runs.sessions.isOwn(did, sessionId)))
      return refuse(peer, noSuchSession())
    if (!peer.isOpen) return
    try {
      const leave = before?.leave ?? users.take(did)
      peer.member = { did, cids, expiresAt, sessionId, leave }
    } catch (error) {
      return refuse(peer, error)
    }
    if (approvals !== undefined) {
      peer.stopShowing?.()
      peer.stopShowing = approvals ? runs.showApprovals(sessionId) : undefined
    }
    for (const frame of framing.connected(sessionId)) peer.send(frame)
    // A token may have been revoked while the database was asked.
    if (await isRevoked(cids)) return refuse(peer, unauthorized())
    if (!before && peer.isOpen) await rooms.join(peer, sessionId).welcome(peer)
  }

  function refuse(peer: Peer, error: unknown): void {
    if (!(error instanceof RuntimeError)) throw error
    const told = peer.framing.refused?.(error)
    if (told !== undefined) peer.send(told)
    peer.close(closingOf(error))
  }

  async function answer(peer: Peer, { answer, ack }: Answering): Promise<void> {
    const { member } = peer
    if (!member) return
    const { toolCallId, result, error } = answer
    const isMeant = answer.sessionId === undefined || answer.sessionId === member.sessionId
    const { did, sessionId } = member
    const accepted =
      isMeant && (await runs.clientResult({ did, sessionId, toolCallId, result, error }))
    if (!accepted) {
      const why = isMeant ? 'nobody waits for it' : 'it names another session'
      log.info({ sessionId, toolCallId }, `The result of a client's tool was ignored: ${why}`)
    }
    if (ack !== undefined) peer.send(peer.framing.acknowledged!(ack, accepted))
  }

  /** Closes the sockets whose tokens are revoked: those of one user, or all that are. */
  async function closeRevoked(did?: string): Promise<void> {
    for (const peer of peers) {
      if (!peer.member || (did !== undefined && peer.member.did !== did)) continue
      try {
        if (await isRevoked(peer.member.cids)) peer.close('revoked')
      } catch (error) {
        // Nobody knows, so it has to prove itself anew.
        log.warn({ err: error }, 'Revocations could not be looked up')
        peer.close('tryLater')
      }
    }
  }

  http.upgrade('/ws', take(plain))
  http.upgrade('/socket.io/', take(socketIo, sessionOf))
  http.upgrade('/socket.io', take(socketIo, sessionOf))
  http.onShutdown.addEventListener('abort', () => {
    for (const peer of peers) peer.close('shuttingDown')
  })

  return {
    async open() {
      stopListening = await store.listen(
        revocationChannel,
        (did) => void closeRevoked(did),
        () => void closeRevoked(),
      )
    },
    revoked(did) {
      store.notify(revocationChannel, did).catch((error: unknown) => {
        log.warn({ err: error }, 'Other replicas were not told of a revocation')
        void closeRevoked(did)
      })
    },
    get size() {
      return peers.size
    },
    async close() {
      clearInterval(sweeping)
      for (const peer of peers) peer.close('shuttingDown')
      await stopListening?.()
    },
  }
}

type Entering = Extract<ClientFrame, { kind: 'auth' }>
type Answering = Extract<ClientFrame, { kind: 'answer' }>

const unauthorized = () => new RuntimeError('UNAUTHORIZED', 'No valid credential came.')
const noSuchSession = () => new RuntimeError('FORBIDDEN', 'You have no such session.')

/** How a socket ends that is not let in. */
function closingOf({ code, status }: RuntimeError): Closing {
  if (code === 'TOO_MANY_CONNECTIONS') return 'tooMany'
  if (status === 401) return 'unauthorized'
  return status === 403 ? 'foreign' : 'tryLater'
}

/** Other transports begin with requests that this server does not answer. */
function checkTransport(query: string): void {
  const asked = new URLSearchParams(query)
  if (asked.get('EIO') === '4' && asked.get('transport') === 'websocket' && !asked.has('sid'))
    return
  throw new RuntimeError('BAD_REQUEST', 'This socket is not spoken here.', {
    hint: 'Connect with EIO=4 and transport=websocket, and without a sid: io(url, { transports: ["websocket"] }).',
  })
}
