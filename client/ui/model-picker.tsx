import type { Overrides } from '../core/records.ts'
import { useModels } from '../react/use-oracle.ts'
import { useReadAgain } from './read-again.ts'
import { useWords } from './words.ts'

/** The props of `ModelPicker`. */
export interface ModelPickerProps {
  readonly oracleDid: string
  readonly overrides?: Overrides
}

/** Chooses the model of the turns to come; nothing where there is no choice. */
export function ModelPicker({ oracleDid, overrides }: ModelPickerProps) {
  const words = useWords()
  const { models, model, setModel, error, refetch } = useModels(oracleDid, overrides)
  useReadAgain(error, refetch)
  if (models.length < 2) return null
  return (
    <select
      className="oc-model"
      aria-label={words.model}
      value={model ?? ''}
      onChange={({ target }) => setModel(target.value)}
    >
      {models.map(({ id, label }) => (
        <option key={id} value={id}>
          {label}
        </option>
      ))}
    </select>
  )
}
