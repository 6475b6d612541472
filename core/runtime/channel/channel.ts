import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import type { Callers } from '../auth/callers.ts'
import { clientNetwork } from '../http/limits/client-address.ts'
import { type Cors, readCors, refuseForeign } from '../http/cors.ts'
import type { Http, Upgrade } from '../http/http.ts'
import { Places } from '../http/limits/places.ts'
import { readTarget } from '../http/read/target.ts'
import type { Runs } from '../turns/carry/runs.ts'
import type { Notices } from '../notices/notices.ts'
import type { Store } from '../store/store.ts'
import type { ClientFrame, Framing } from './framing.ts'
import { channelLimits, type ChannelLimits } from './limits.ts'
import type { Closing, Peer, PeerOptions } from './peer.ts'
import type { RoomRuns } from './rooms.ts'
import type { Sockets } from './sockets.ts'

/** Where replicas tell each other whose tokens were revoked. */
const revocationChannel = 'kernel_revocations'
/** After a DID: the sockets of all tokens are meant. No DID holds a space. */
const allTokens = 'all'

/** What the channel asks of the rest of the app. */
export interface ChannelOptions {
  readonly http: Pick<Http, 'upgrade' | 'onShutdown'>
  readonly runs: RoomRuns &
    Pick<Runs, 'clientResult' | 'showApprovals'> & { readonly sessions: OwnSessions }
  readonly notices: Pick<Notices, 'read'>
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
  spokeAfter(sessionId: string, position: number, besides: readonly string[]): Promise<boolean>
}

/** The sockets of clients, in both framings: events of their sessions go out, the results of their tools come in. */
export class Channel {
  readonly #http: ChannelOptions['http']
  readonly #runs: ChannelOptions['runs']
  readonly #notices: ChannelOptions['notices']
  readonly #bySocket: ChannelOptions['bySocket']
  readonly #isRevoked: ChannelOptions['isRevoked']
  readonly #store: ChannelOptions['store']
  readonly #log: Log
  readonly #limits: ChannelLimits
  readonly #cors: Cors
  readonly #ownOrigin: string | undefined
  readonly #peers = new Set<Peer>()
  readonly #addresses: Places
  readonly #users: Places
  #sweeping: NodeJS.Timeout | undefined
  #sockets: Promise<Sockets> | undefined
  #stopListening: (() => Promise<void>) | undefined

  constructor(options: ChannelOptions) {
    const { http, publicUrl } = options
    const limits = { ...channelLimits, ...options.limits }
    this.#http = http
    this.#runs = options.runs
    this.#notices = options.notices
    this.#bySocket = options.bySocket
    this.#isRevoked = options.isRevoked
    this.#store = options.store
    this.#log = options.log
    this.#limits = limits
    this.#cors = { ...readCors(options.cors), strict: true }
    this.#ownOrigin = publicUrl === undefined ? undefined : new URL(publicUrl).origin
    this.#addresses = new Places(limits.perAddress, 'sockets of this address')
    this.#users = new Places(limits.perDid, 'sockets of this DID')
    http.upgrade('/ws', this.#taking('plain'))
    http.upgrade('/socket.io/', this.#taking('socket.io'))
    http.upgrade('/socket.io', this.#taking('socket.io'))
    http.onShutdown.addEventListener('abort', () => this.#closeAll())
  }

  /** How many sockets there are. */
  get size(): number {
    return this.#peers.size
  }

  /** How many sockets there are of each framing. */
  get byFraming(): Readonly<Record<Framing['name'], number>> {
    const counts = { plain: 0, 'socket.io': 0 }
    for (const { framing } of this.#peers) counts[framing.name]++
    return counts
  }

  /** Begins to listen to other replicas. */
  async open(): Promise<void> {
    this.#stopListening = await this.#store.listen(
      revocationChannel,
      (told) => {
        const [did, which] = told.split(' ')
        void this.#closeRevoked(did, which === allTokens)
      },
      () => void this.#closeRevoked(),
    )
  }

  /** A user has revoked a token: every replica closes the sockets that the token opened. */
  revoked(did: string): void {
    this.#store.notify(revocationChannel, did).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'Other replicas were not told of a revocation')
      void this.#closeRevoked(did)
    })
  }

  /** Nothing is kept of a user any more: every replica closes the user's sockets, whatever token opened them. */
  erased(did: string): void {
    this.#store.notify(revocationChannel, `${did} ${allTokens}`).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'Other replicas were not told to close the sockets of a user')
      void this.#closeRevoked(did, true)
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping)
    this.#closeAll()
    await this.#stopListening?.()
  }

  #closeAll(): void {
    for (const peer of this.#peers) peer.close('shuttingDown')
  }

  /** Takes upgraded connections that speak this framing. */
  #taking(framing: Framing['name']): Upgrade {
    return async (req, socket, head, ip) => {
      const { onShutdown } = this.#http
      refuseForeign(this.#cors, req, this.#ownOrigin)
      if (onShutdown.aborted) throw onShutdown.reason
      const { path, query } = readTarget(req.url ?? '')! // the edge has read it before
      if (framing === 'socket.io') checkTransport(query)
      const leave = this.#addresses.take(clientNetwork(ip))
      socket.once('close', leave)
      if (socket.destroyed) return leave() // the socket closed before `close` was listened for
      // The code for WebSocket is loaded with the first socket.
      const sockets = await (this.#sockets ??= this.#load())
      sockets.server.accept(req, socket, head, (ws) =>
        this.#welcome(sockets, { framing, query, ws, ip, path }),
      )
    }
  }

  async #load(): Promise<Sockets> {
    const { Sockets } = await import('./sockets.ts')
    return new Sockets(this.#runs, this.#log)
  }

  #welcome(sockets: Sockets, { framing, query, ...arrival }: Arrival): void {
    const peer = sockets.peer(framing, query, {
      ...arrival,
      limits: this.#limits,
      work: (peer, frame) => this.#work(sockets, peer, frame),
      onClosed: (peer) => this.#left(sockets, peer),
      onTooLarge: (peer) => this.#failCalls(peer),
      onCut: (_, why) => this.#log.info({ framing }, `A socket was cut off: ${why}`),
    })
    this.#peers.add(peer)
    this.#sweeping ??= setInterval(() => this.#sweep(), this.#limits.sweepMs).unref()
    const greeting = peer.framing.greeting?.()
    if (greeting !== undefined) peer.send(greeting)
    if (this.#http.onShutdown.aborted) peer.close('shuttingDown')
  }

  #sweep(): void {
    const now = performance.now()
    for (const peer of this.#peers) peer.look(now)
  }

  #left({ rooms }: Sockets, peer: Peer): void {
    this.#peers.delete(peer)
    peer.member?.leave()
    peer.stopShowing?.()
    peer.userEvents?.end()
    if (peer.member?.sessionId !== undefined) rooms.leave(peer, peer.member.sessionId)
    if (this.#peers.size > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  /**
   * Fails every call that the client was asked for, after a result that is too large to be read and so names no call. The
   * client would otherwise connect again, be asked again and send the same until the time of the call is over.
   */
  #failCalls({ asked, member }: Peer): void {
    if (!member) return
    const { did, sessionId } = member
    if (sessionId === undefined) return
    const error = 'The result is larger than 64 KiB.'
    for (const toolCallId of asked)
      this.#runs
        .clientResult({ did, sessionId, toolCallId, error })
        .catch((err: unknown) =>
          this.#log.warn({ err }, 'A call whose result is too large could not be failed'),
        )
  }

  async #work(sockets: Sockets, peer: Peer, frame: ClientFrame): Promise<void> {
    try {
      if (frame.kind === 'auth') await this.#enter(sockets, peer, frame)
      else if (frame.kind === 'answer') await this.#takeAnswer(peer, frame)
    } catch (error) {
      this.#log.error({ err: error }, 'A frame of a socket could not be worked off')
      peer.close('tryLater')
    }
  }

  /** Takes a credential. The first opens the session, a later one keeps the socket from ending with the first. */
  async #enter(
    sockets: Sockets,
    peer: Peer,
    { sessionId = peer.sessionId, tokens, approvals, user: wanted, cursor }: Entering,
  ): Promise<void> {
    const { framing, ip, path, member: before } = peer
    let user: Awaited<ReturnType<ChannelOptions['bySocket']>>
    try {
      user = await this.#bySocket({ ...tokens, ip, path, lasting: !framing.renews })
    } catch (error) {
      return refuse(peer, error)
    }
    const { did, cids, expiresAt } = user
    const isSame = !before || (before.did === did && before.sessionId === sessionId)
    const isForUser = wanted !== undefined || peer.userEvents !== undefined
    const isOwn =
      sessionId === undefined ? isForUser : await this.#runs.sessions.isOwn(did, sessionId)
    if (!isSame || !isOwn) return refuse(peer, noSuchSession())
    if (!peer.isOpen) return
    try {
      const leave = before?.leave ?? this.#users.take(did)
      peer.member = { did, cids, expiresAt, sessionId, leave }
    } catch (error) {
      return refuse(peer, error)
    }
    if (approvals !== undefined && sessionId !== undefined) {
      peer.stopShowing?.()
      peer.stopShowing = approvals ? this.#runs.showApprovals(sessionId) : undefined
    }
    for (const frame of framing.connected(sessionId)) peer.send(frame)
    // A token may have been revoked while the database was asked.
    if (await this.#isRevoked(cids)) return refuse(peer, unauthorized())
    if (!peer.isOpen) return
    if (wanted && !peer.userEvents)
      peer.userEvents = sockets.tellUser(peer, this.#notices.read(did, wanted.after))
    if (before || sessionId === undefined) return
    const isLate = cursor !== undefined
    const heard = await sockets.rooms.join(peer, sessionId).welcome(peer, isLate)
    // Between the reading of the history and the opening of the socket, nobody told the client what was said.
    if (!isLate || !(await this.#runs.sessions.spokeAfter(sessionId, cursor, heard))) return
    sockets.tellToRead(peer, sessionId)
  }

  /** Takes what became of a call that the client was asked to carry out. */
  async #takeAnswer(peer: Peer, { answer, ack }: Answering): Promise<void> {
    const { member } = peer
    if (!member) return
    const { toolCallId, result, error } = answer
    const isMeant = answer.sessionId === undefined || answer.sessionId === member.sessionId
    const { did, sessionId } = member
    if (sessionId === undefined) return
    const accepted =
      isMeant && (await this.#runs.clientResult({ did, sessionId, toolCallId, result, error }))
    if (!accepted) {
      const why = isMeant ? 'nobody waits for it' : 'it names another session'
      this.#log.info({ sessionId, toolCallId }, `The result of a client's tool was ignored: ${why}`)
    }
    if (ack !== undefined) peer.send(peer.framing.acknowledged!(ack, accepted))
  }

  /** Closes the sockets whose tokens are revoked: those of one user, or of all users. `all`: whatever their tokens. */
  async #closeRevoked(did?: string, all = false): Promise<void> {
    for (const peer of this.#peers) {
      if (!peer.member || (did !== undefined && peer.member.did !== did)) continue
      try {
        if (all || (await this.#isRevoked(peer.member.cids))) peer.close('revoked')
      } catch (error) {
        // Whether the token is revoked is not known, so the client has to prove itself anew.
        this.#log.warn({ err: error }, 'Revocations could not be looked up')
        peer.close('tryLater')
      }
    }
  }
}

/** Tells a client why the channel does not let it in, and closes its socket. */
function refuse(peer: Peer, error: unknown): void {
  if (!(error instanceof RuntimeError)) throw error
  const told = peer.framing.refused?.(error)
  if (told !== undefined) peer.send(told)
  peer.close(closingOf(error))
}

/** A socket that has just been opened, and how its client speaks. */
interface Arrival extends Pick<PeerOptions, 'ws' | 'ip' | 'path'> {
  readonly framing: Framing['name']
  readonly query: string
}

type Entering = Extract<ClientFrame, { kind: 'auth' }>
type Answering = Extract<ClientFrame, { kind: 'answer' }>

const unauthorized = () => new RuntimeError('UNAUTHORIZED', 'No valid credential came.')
const noSuchSession = () => new RuntimeError('FORBIDDEN', 'You have no such session.')

/** How the channel closes a socket that it does not let in. */
function closingOf({ code, status }: RuntimeError): Closing {
  if (code === 'TOO_MANY_CONNECTIONS') return 'tooMany'
  if (status === 401) return 'unauthorized'
  return status === 403 ? 'foreign' : 'tryLater'
}

/** Refuses the other transports of Socket.IO: they begin with requests that this server does not answer. */
function checkTransport(query: string): void {
  const asked = new URLSearchParams(query)
  if (asked.get('EIO') === '4' && asked.get('transport') === 'websocket' && !asked.has('sid'))
    return
  throw new RuntimeError('BAD_REQUEST', 'This server does not speak this transport of Socket.IO.', {
    hint: 'Connect with EIO=4 and transport=websocket, and without a sid: io(url, { transports: ["websocket"] }).',
  })
}
