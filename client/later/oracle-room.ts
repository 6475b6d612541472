import { OracleError } from '../core/error.ts'
import type { IWalletProps } from '../core/records.ts'
import { ask, type Call, readJson, trimmed } from '../core/request.ts'

/** The room that a user shares with an oracle on the messaging server of the user's wallet. */
export class OracleRoom {
  readonly #wallet: IWalletProps
  readonly #oracleDid: string

  constructor(wallet: IWalletProps, oracleDid: string) {
    this.#wallet = wallet
    this.#oracleDid = oracleDid
  }

  /** Whether the account of the oracle is in the room; undefined where the wallet has no messaging account. */
  async hasOracle(address: string | undefined): Promise<boolean | undefined> {
    if (!this.hasAccount) return undefined
    const roomId = address && (await this.#roomId())
    if (!roomId) return false
    const path = `/rooms/${encodeURIComponent(roomId)}/joined_members`
    const { joined = {} } = await this.#call<{ joined?: object }>(path)
    return Object.hasOwn(joined, this.#accountOf(address))
  }

  /** Invites the account of the oracle into the room. */
  async invite(address: string | undefined): Promise<void> {
    this.#demandAccount()
    const roomId = address && (await this.#roomId())
    if (!roomId)
      throw new OracleError('not_found', 'There is no room of the user and the oracle yet.')
    await this.#call(`/rooms/${encodeURIComponent(roomId)}/invite`, {
      body: { user_id: this.#accountOf(address) },
    })
  }

  /** Sees to it that there is a room, that the user is in it, and that the oracle is there or invited. */
  async open(address: string | undefined): Promise<void> {
    this.#demandAccount()
    if (!address)
      throw new OracleError('not_found', 'The oracle names no account that could be invited.', {
        hint: 'Claims of this oracle are paid one by one, with payClaim.',
      })
    const roomId = (await this.#roomId()) ?? (await this.#make())
    await this.#call(`/rooms/${encodeURIComponent(roomId)}/join`, { body: {} })
    if (!(await this.hasOracle(address))) await this.invite(address)
  }

  /** Makes the room, in which its maker has every right. */
  async #make(): Promise<string> {
    const body = { preset: 'private_chat', room_alias_name: this.#name }
    try {
      return (await this.#call<{ room_id: string }>('/createRoom', { body })).room_id
    } catch (error) {
      // Another tab, or the messaging server itself, may have been faster.
      const made = await this.#roomId()
      if (made === undefined) throw error
      return made
    }
  }

  /** Whether the wallet has an account on a messaging server. */
  get hasAccount(): boolean {
    const { accessToken, homeServer } = this.#wallet.matrix
    return Boolean(accessToken && homeServer)
  }

  #demandAccount(): void {
    if (!this.hasAccount)
      throw new OracleError(
        'invalid_request',
        'The wallet has no messaging account: its field "matrix" is empty.',
      )
  }

  get #host(): string {
    return this.#wallet.matrix.homeServer.replace(/^https?:\/\//, '').replace(/\/.*$/, '')
  }

  #accountOf(address: string): string {
    return `@did-ixo-${address}:${this.#host}`
  }

  /** What the alias of the room begins with. */
  get #name(): string {
    return [this.#wallet.did, this.#oracleDid].map((did) => did.replaceAll(':', '-')).join('_')
  }

  async #roomId(): Promise<string | undefined> {
    const alias = encodeURIComponent(`#${this.#name}:${this.#host}`)
    try {
      return (await this.#call<{ room_id: string }>(`/directory/room/${alias}`)).room_id
    } catch (error) {
      if (error instanceof OracleError && error.status === 404) return undefined
      throw error
    }
  }

  #call<T>(path: string, call: Call = {}): Promise<T> {
    const { accessToken, homeServer } = this.#wallet.matrix
    const server = /^https?:/.test(homeServer) ? trimmed(homeServer) : `https://${homeServer}`
    const headers = { authorization: `Bearer ${accessToken}` }
    return readJson<T>({ ...call, headers }, (bounded) =>
      ask(`${server}/_matrix/client/v3${path}`, bounded),
    )
  }
}
