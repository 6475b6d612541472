import { type Bytes, bytes, message, NotProto, part, ProtoFields, text, uint } from './proto.ts'

/** The messages of transactions that we write and read, by the names that the ledger has for them. */
export const types = {
  send: '/cosmos.bank.v1beta1.MsgSend',
  exec: '/cosmos.authz.v1beta1.MsgExec',
  grant: '/cosmos.authz.v1beta1.MsgGrant',
  revoke: '/cosmos.authz.v1beta1.MsgRevoke',
  sendAuthorization: '/cosmos.bank.v1beta1.SendAuthorization',
  submitClaim: '/ixo.claims.v1beta1.MsgSubmitClaim',
  evaluateClaim: '/ixo.claims.v1beta1.MsgEvaluateClaim',
  claimAuthorization: '/ixo.claims.v1beta1.MsgCreateClaimAuthorization',
  publicKey: '/cosmos.crypto.secp256k1.PubKey',
  baseAccount: '/cosmos.auth.v1beta1.BaseAccount',
} as const

/** A message with the name of its type. */
export interface TypedBytes {
  readonly typeUrl: string
  readonly value: Uint8Array
}

/** An amount of a denomination, as the ledger writes it. */
export interface LedgerCoin {
  readonly denom: string
  readonly amount: string
}

export const writeAny = ({ typeUrl, value }: TypedBytes): Bytes =>
  message(text(1, typeUrl), bytes(2, value))

export function readAny(source: Uint8Array): TypedBytes {
  const fields = new ProtoFields(source)
  return { typeUrl: fields.text(1), value: fields.bytes(2) }
}

export const writeCoin = ({ denom, amount }: LedgerCoin): Bytes =>
  message(text(1, denom), text(2, amount))

export function readCoin(source: Uint8Array): LedgerCoin {
  const fields = new ProtoFields(source)
  const amount = fields.text(2)
  if (!/^\d{1,40}$/.test(amount)) throw new NotProto('An amount is no whole number.')
  return { denom: fields.text(1), amount }
}

/** A transfer. */
export interface Send {
  readonly fromAddress: string
  readonly toAddress: string
  readonly amount: readonly LedgerCoin[]
}

export const writeSend = ({ fromAddress, toAddress, amount }: Send): Bytes =>
  message(
    text(1, fromAddress),
    text(2, toAddress),
    ...amount.map((coin) => part(3, writeCoin(coin))),
  )

export function readSend(source: Uint8Array): Send {
  const fields = new ProtoFields(source)
  return {
    fromAddress: fields.text(1),
    toAddress: fields.text(2),
    amount: fields.all(3).map(readCoin),
  }
}

/** Messages that somebody carries out for those who granted it. */
export interface Exec {
  readonly grantee: string
  readonly msgs: readonly TypedBytes[]
}

export const writeExec = ({ grantee, msgs }: Exec): Bytes =>
  message(text(1, grantee), ...msgs.map((one) => part(2, writeAny(one))))

export function readExec(source: Uint8Array): Exec {
  const fields = new ProtoFields(source)
  return { grantee: fields.text(1), msgs: fields.all(2).map(readAny) }
}

/** The grant to send coins up to a limit, to those who are listed. */
export interface SendGrant {
  readonly granter: string
  readonly grantee: string
  readonly spendLimit: readonly LedgerCoin[]
  readonly allowList: readonly string[]
  /** Seconds since 1970. */
  readonly expires: number
}

const writeTime = (seconds: number): Bytes => uint(1, seconds)

export const writeSendGrant = (grant: SendGrant): Bytes => {
  const { granter, grantee, spendLimit, allowList, expires } = grant
  const value = message(
    ...spendLimit.map((coin) => part(1, writeCoin(coin))),
    ...allowList.map((address) => part(2, new TextEncoder().encode(address))),
  )
  const authorization = writeAny({ typeUrl: types.sendAuthorization, value })
  const inner = message(part(1, authorization), part(2, writeTime(expires)))
  return message(text(1, granter), text(2, grantee), part(3, inner))
}

export function readSendGrant(source: Uint8Array): SendGrant {
  const fields = new ProtoFields(source)
  const grant = fields.part(3)
  const { typeUrl, value } = readAny(grant?.bytes(1) ?? new Uint8Array())
  if (typeUrl !== types.sendAuthorization) throw new NotProto(`A grant of ${typeUrl} is not known.`)
  const authorization = new ProtoFields(value)
  return {
    granter: fields.text(1),
    grantee: fields.text(2),
    spendLimit: authorization.all(1).map(readCoin),
    allowList: authorization.texts(2),
    expires: Number(grant?.part(2)?.uint(1) ?? 0n),
  }
}

/** Takes a grant back. */
export interface Revoke {
  readonly granter: string
  readonly grantee: string
  readonly msgTypeUrl: string
}

export const writeRevoke = ({ granter, grantee, msgTypeUrl }: Revoke): Bytes =>
  message(text(1, granter), text(2, grantee), text(3, msgTypeUrl))

export function readRevoke(source: Uint8Array): Revoke {
  const fields = new ProtoFields(source)
  return { granter: fields.text(1), grantee: fields.text(2), msgTypeUrl: fields.text(3) }
}
