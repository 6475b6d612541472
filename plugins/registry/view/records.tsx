import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from 'react'
import { Fault, Json, useAnswer, useHost } from 'oracle-runtime-client/view'

interface List<Item> {
  readonly items: readonly Item[]
  readonly nextCursor?: string
}

const tabs = ['Claims', 'Credentials', 'History'] as const

/** What is claimed of an entity, what oracles have signed, and what changed: three tabs, moved through by the arrow keys. */
export function Records({ did }: { did: string }) {
  const [tab, setTab] = useState(0)
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const move = ({ key }: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key]
    if (step === undefined) return
    const next = (tab + step + tabs.length) % tabs.length
    setTab(next)
    list.current?.querySelectorAll('button')[next]?.focus()
  }
  return (
    <section className="card" aria-label="What is known of it">
      <div className="tabs" role="tablist" aria-label="Records" ref={list} onKeyDown={move}>
        {tabs.map((name, nth) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${nth}`}
            aria-selected={nth === tab}
            aria-controls={`${id}-panel`}
            tabIndex={nth === tab ? 0 : -1}
            onClick={() => setTab(nth)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${tab}`}>
        {tab === 0 && <Claims did={did} />}
        {tab === 1 && <Credentials did={did} />}
        {tab === 2 && <History did={did} />}
      </div>
    </section>
  )
}

interface Claim {
  readonly id: string
  readonly type: string
  readonly status: string
  readonly submitter?: string
  readonly createdAt: string
  readonly properties: unknown
  readonly evaluation?: { readonly oracle: string; readonly notes?: string }
}

function Claims({ did }: { did: string }) {
  const query = new URLSearchParams({ subject: did, limit: '50' })
  const claims = useAnswer<List<Claim>>(`/v1/claims?${query}`)
  return (
    <Rows answer={claims} none="Nothing was claimed of it.">
      {claims.data?.items.map((claim) => (
        <Row
          key={claim.id}
          title={claim.type}
          status={claim.status}
          about={[
            `claimed by ${claim.submitter ?? 'nobody yet'}`,
            claim.evaluation && `judged by ${claim.evaluation.oracle}`,
            claim.evaluation?.notes,
          ]}
          at={claim.createdAt}
          whole={claim}
        />
      ))}
    </Rows>
  )
}

interface Credential {
  readonly id: string
  readonly issuer: string
  readonly validFrom: string
  readonly credentialSubject: {
    readonly claim: { readonly claimType: string }
    readonly evaluation: { readonly oracle: string }
  }
}

function Credentials({ did }: { did: string }) {
  const pathOf = (status: string) =>
    `/v1/credentials?${new URLSearchParams({ subject: did, status, limit: '50' })}`
  const valid = useAnswer<List<Credential>>(pathOf('valid'))
  const revoked = useAnswer<List<Credential>>(pathOf('revoked'))
  const all = [
    ...(valid.data?.items ?? []).map((one) => ({ ...one, status: 'valid' })),
    ...(revoked.data?.items ?? []).map((one) => ({ ...one, status: 'revoked' })),
  ]
  const answer = {
    error: valid.error ?? revoked.error,
    isLoading: valid.isLoading || revoked.isLoading,
    data: { items: all },
  }
  return (
    <Rows answer={answer} none="No claim about it has become a credential.">
      {all.map((one) => (
        <Row
          key={one.id}
          title={one.credentialSubject.claim.claimType}
          status={one.status}
          about={[
            `judged by ${one.credentialSubject.evaluation.oracle}`,
            `signed by ${one.issuer}, which also says that it is ${one.status}`,
          ]}
          at={one.validFrom}
          whole={one}
        />
      ))}
    </Rows>
  )
}

interface Version {
  readonly version: number
  readonly status: string
  readonly updatedAt: string
  readonly change: { readonly action: string; readonly by: string }
}

function History({ did }: { did: string }) {
  const versions = useAnswer<List<Version>>(
    `/v1/entities/${encodeURIComponent(did)}/history?limit=50`,
  )
  return (
    <Rows answer={versions} none="It has no history.">
      {versions.data?.items.map((one) => (
        <Row
          key={one.version}
          title={`Version ${one.version}`}
          status={one.change.action}
          about={[`by ${one.change.by}`]}
          at={one.updatedAt}
          whole={one}
        />
      ))}
    </Rows>
  )
}

function Rows(props: {
  answer: { readonly error?: unknown; readonly isLoading: boolean; readonly data?: List<unknown> }
  none: string
  children: ReactNode
}) {
  const { answer, none, children } = props
  const { words } = useHost()
  if (answer.error) return <Fault error={answer.error} />
  if (answer.isLoading) return <p role="status">{words.asking}</p>
  if (answer.data?.items.length === 0) return <p className="faint">{none}</p>
  return (
    <>
      <ul className="records">{children}</ul>
      {answer.data?.nextCursor !== undefined && <p className="faint">The first 50 are shown.</p>}
    </>
  )
}

function Row(props: {
  title: string
  status: string
  about: readonly (string | undefined)[]
  at: string
  whole: unknown
}) {
  const { title, status, about, at, whole } = props
  const { locale } = useHost()
  const isBad = status === 'revoked' || status === 'rejected' || status === 'deactivated'
  return (
    <li>
      <details>
        <summary>
          <strong>{title}</strong> <span className={`tag ${isBad ? 'bad' : 'good'}`}>{status}</span>{' '}
          <time dateTime={at}>
            {new Date(at).toLocaleString(locale, { dateStyle: 'medium', timeStyle: 'short' })}
          </time>
        </summary>
        <Json value={whole} label={`${title} in full`} />
      </details>
      {about
        .filter((line) => line !== undefined)
        .map((line) => (
          <small key={line} className="break">
            {line}
          </small>
        ))}
    </li>
  )
}
