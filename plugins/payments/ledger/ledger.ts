import { RuntimeError } from '#core'
import { type LedgerClaim, readLedgerClaim } from './claim-messages.ts'
import { readAny, readCoin, type TypedBytes, types } from './messages.ts'
import { grpc, type LedgerPort, LedgerStatus, unreachable } from './port.ts'
import { message, NotProto, part, ProtoFields, text, uint, bytes } from './proto.ts'
import { readTx } from './tx.ts'

/** A transaction that stands on the ledger. */
export interface LedgerTx {
  readonly hash: string
  /** 0: it was carried out. */
  readonly code: number
  readonly memo: string
  readonly messages: readonly TypedBytes[]
  /** The address that signed first. */
  readonly publicKey: Uint8Array
}

/** What came of sending a transaction. */
export interface Broadcast {
  readonly code: number
  readonly log: string
}

/** How many transfers are looked through at most. */
const newest = { ofSender: 20, ofAll: 100 }
/** What a node answers to a transaction that it does not take in. `cached`: it has these bytes already. */
export const broadcastCodes = { noFunds: 5, noAccount: 9, cached: 19, sequence: 32 } as const

/** Asks a ledger, in its own messages. Whatever is no answer of a ledger becomes `LEDGER_UNREACHABLE`. */
export class Ledger {
  readonly #port: LedgerPort
  readonly #chainId: string
  #checked: Promise<void> | undefined

  constructor(port: LedgerPort, chainId: string) {
    this.#port = port
    this.#chainId = chainId
  }

  /** The number and the sequence of an account; undefined where the ledger does not know the address. */
  async account(
    address: string,
  ): Promise<{ readonly number: number; readonly sequence: number } | undefined> {
    const answer = await this.#find('cosmos.auth.v1beta1.Query/Account', text(1, address))
    return (
      answer &&
      this.#read(() => {
        const { typeUrl, value } = readAny(answer.bytes(1))
        if (typeUrl !== types.baseAccount)
          throw new NotProto(`${typeUrl} is no account of a person`)
        const account = new ProtoFields(value)
        if (account.text(1) !== address) throw new NotProto('the account is another one')
        return { number: Number(account.uint(3)), sequence: Number(account.uint(4)) }
      })
    )
  }

  /** How much of a denomination stands at an address. */
  async balance(address: string, denom: string): Promise<bigint> {
    const path = 'cosmos.bank.v1beta1.Query/Balance'
    const answer = await this.#ask(path, message(text(1, address), text(2, denom)))
    return this.#read(() => {
      const value = answer.bytes(1)
      if (value.length === 0) return 0n
      const coin = readCoin(value)
      if (coin.denom !== denom) throw new NotProto('the balance is of another denomination')
      return BigInt(coin.amount)
    })
  }

  /** A transaction by its hash; undefined where the ledger does not have it, or not yet. */
  async tx(hash: string): Promise<LedgerTx | undefined> {
    const answer = await this.#find('cosmos.tx.v1beta1.Service/GetTx', text(1, hash))
    if (!answer) return undefined
    return this.#read(() => {
      const found = answer.part(2)
      if (!found || found.text(2).toUpperCase() !== hash) throw new NotProto('it is another hash')
      return txOf(found)
    })
  }

  /** The newest transfers to an address, of one sender or of all. */
  async transfersTo(address: string, sender?: string): Promise<LedgerTx[]> {
    const events = [
      `transfer.recipient='${address}'`,
      ...(sender === undefined ? [] : [`message.sender='${sender}'`]),
    ]
    const limit = sender === undefined ? newest.ofAll : newest.ofSender
    const descending = 2
    const request = message(
      ...events.map((event) => part(1, new TextEncoder().encode(event))),
      uint(3, descending),
      uint(4, 1),
      uint(5, limit),
      text(6, events.join(' AND ')),
    )
    const answer = await this.#find('cosmos.tx.v1beta1.Service/GetTxsEvent', request)
    return this.#read(() => (answer?.all(2) ?? []).slice(0, limit).flatMap((one) => readable(one)))
  }

  /** How much gas a transaction takes. */
  async simulate(tx: Uint8Array): Promise<number> {
    const answer = await this.#ask('cosmos.tx.v1beta1.Service/Simulate', bytes(2, tx))
    return this.#read(() => Number(answer.part(1)?.uint(2) ?? 0n))
  }

  /** Sends a transaction. */
  async broadcast(tx: Uint8Array): Promise<Broadcast> {
    const sync = 2
    const request = message(bytes(1, tx), uint(2, sync))
    const answer = await this.#ask('cosmos.tx.v1beta1.Service/BroadcastTx', request)
    return this.#read(() => {
      const told = answer.part(1)
      if (!told) throw new NotProto('the broadcast has no answer')
      return { code: Number(told.uint(4)), log: told.text(6).slice(0, 300) }
    })
  }

  /** How many grants one address has given another for a kind of message. */
  async grants(granter: string, grantee: string, typeUrl: string): Promise<number> {
    const request = message(text(1, granter), text(2, grantee), text(3, typeUrl))
    const answer = await this.#find('cosmos.authz.v1beta1.Query/Grants', request)
    return this.#read(() => answer?.all(1).length ?? 0)
  }

  /** A claim that stands on the ledger. */
  async claim(id: string): Promise<LedgerClaim | undefined> {
    const answer = await this.#find('ixo.claims.v1beta1.Query/Claim', text(1, id))
    if (!answer) return undefined
    return this.#read(() => {
      const claim = readLedgerClaim(answer.bytes(1))
      if (claim.claimId !== id) throw new NotProto('the claim is another one')
      return claim
    })
  }

  /** Asks the node which chain it is of. Rejects where it does not answer, or is of another one. */
  async check(): Promise<void> {
    await this.#checkChain()
  }

  /** Ends the connection. */
  close(): Promise<void> {
    return this.#port.close()
  }

  async #find(path: string, request: Uint8Array): Promise<ProtoFields | undefined> {
    try {
      return await this.#ask(path, request)
    } catch (error) {
      const cause = error instanceof RuntimeError ? error.cause : undefined
      if (cause instanceof LedgerStatus && isNotFound(cause)) return undefined
      throw error
    }
  }

  async #ask(path: string, request: Uint8Array): Promise<ProtoFields> {
    this.#checked ??= this.#checkChain().catch((error: unknown) => {
      this.#checked = undefined
      throw error
    })
    await this.#checked
    return this.#call(path, request)
  }

  async #call(path: string, request: Uint8Array): Promise<ProtoFields> {
    try {
      return new ProtoFields(await this.#port.unary(path, request))
    } catch (error) {
      throw unreachable(sentence(error), error)
    }
  }

  /** Whether the node is of our chain: what another chain says is no payment of ours. Nodes that do not tell are believed. */
  async #checkChain(): Promise<void> {
    let network: string
    try {
      const path = 'cosmos.base.tendermint.v1beta1.Service/GetNodeInfo'
      network = (await this.#call(path, new Uint8Array())).part(1)?.text(4) ?? ''
    } catch (error) {
      const cause = error instanceof RuntimeError ? error.cause : undefined
      if (cause instanceof LedgerStatus && cause.status === grpc.unimplemented) return
      throw error
    }
    if (network !== '' && network !== this.#chainId)
      throw unreachable(`it is the chain ${network}, and PAYMENTS_CHAIN_ID is ${this.#chainId}`)
  }

  #read<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw unreachable(sentence(error), error)
    }
  }
}

const sentence = (error: unknown): string =>
  error instanceof Error ? error.message.replace(/\.$/, '').slice(0, 200) : 'no reason was given'

/** Nodes tell in different words that they do not have a thing. */
const isNotFound = ({ status, message }: LedgerStatus): boolean =>
  status === grpc.notFound || /not found|not exist/i.test(message)

/** A transaction of a list. Anybody may send us one that cannot be read: it keeps nobody's payment from being found. */
function readable(source: Uint8Array): LedgerTx[] {
  try {
    return [txOf(new ProtoFields(source))]
  } catch (error) {
    if (error instanceof NotProto) return []
    throw error
  }
}

function txOf(answer: ProtoFields): LedgerTx {
  const { value } = readAny(answer.bytes(11))
  const { messages, memo, publicKey } = readTx(value)
  return {
    hash: answer.text(2).toUpperCase(),
    code: Number(answer.uint(4)),
    memo,
    messages,
    publicKey,
  }
}
