import { useCapabilities, type Capability } from 'oracle-runtime-client'
import type { Oracle } from '../oracle.ts'

/** How many plugins the page names by an example of theirs. */
const mostExamples = 6

interface Props {
  readonly oracle: Oracle
  readonly onSay: (message: string) => void
}

/** What an empty chat offers to ask: the first example of each plugin that the agent can reach. */
export function Welcome({ oracle, onSay }: Props) {
  const { plugins } = useCapabilities(oracle.did, {})
  const openers = [...examplesOf(plugins), 'What can you do?', 'Tell me a long story.']
  return (
    <div className="welcome">
      <h2>{oracle.name}</h2>
      <p>
        It answers with the model “{oracle.model}” and can load what it needs. Try one of these:
      </p>
      <div className="row wrap">
        {openers.map((opener) => (
          <button key={opener} type="button" className="opener" onClick={() => onSay(opener)}>
            {opener}
          </button>
        ))}
      </div>
    </div>
  )
}

function examplesOf(plugins: readonly Capability[]): string[] {
  return plugins
    .filter(
      ({ state, visibility }) => /^(loaded|available)$/.test(state) && visibility !== 'silent',
    )
    .flatMap(({ examples }) => examples?.slice(0, 1) ?? [])
    .slice(0, mostExamples)
}
