//! What is to change in a table, in order; all of it happens, or nothing.
//!
//! Only collects: bytes are made in [`super::batch`], sent by [`super::NftClient`], printed by [`super::show`].

use super::{Chain, Element, KeyBytes, Name, OtherObject, Set};

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes the table if it is not there.
    AddTable,
    /// Deletes the table and all in it. It must be there, or be added earlier in the transaction.
    DeleteTable,
    /// Makes a set or map if it is not there.
    AddSet(Set),
    /// Deletes a set that no rule names any more.
    DeleteSet(Name),
    /// Deletes all elements of a set.
    FlushSet(Name),
    /// Makes a chain if it is not there and adds the rules at its end.
    AddChain(Chain),
    /// Makes a chain if it is not there and gives it these rules and no others.
    RefillChain(Chain),
    /// Deletes a chain that nothing points at any more, and its rules.
    DeleteChain(Name),
    /// Adds elements of one set. One that is there already must lead to the same.
    AddElements(Vec<Element>),
    /// Deletes elements of one set, which must be there.
    DeleteElements {
        /// The set.
        set: Name,
        /// Their keys.
        keys: Vec<KeyBytes>,
    },
    /// Makes a named counter if it is not there.
    AddCounter(Name),
    /// Deletes a named counter that no rule names any more.
    DeleteCounter(Name),
    /// Deletes an object of a kind we never make, which no rule names any more.
    DeleteOther(OtherObject),
}

/// Steps that happen together.
///
/// Chains that are added one after the other may point at each other: all are made before any is filled. Chains
/// deleted one after the other, likewise: all are emptied before any goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    operations: Vec<Operation>,
    expected_generation: Option<u32>,
}

impl Transaction {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the transaction fail, as [`GenerationChanged`](super::CommitError::GenerationChanged), if any program
    /// has changed any rules since this generation.
    pub fn expect_generation(&mut self, generation: u32) -> &mut Self {
        self.expected_generation = Some(generation);
        self
    }

    /// The generation it was made for, if that matters.
    pub fn expected_generation(&self) -> Option<u32> {
        self.expected_generation
    }

    /// The steps.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// How many objects are written: tables, sets, chains, rules, elements and counters.
    pub fn written(&self) -> usize {
        self.operations.iter().map(Operation::written).sum()
    }

    /// How many objects are removed by name or key. What a flush removes is not known here.
    pub fn removed(&self) -> usize {
        self.operations.iter().map(Operation::removed).sum()
    }

    /// Makes the table if it is not there.
    pub fn add_table(&mut self) -> &mut Self {
        self.push(Operation::AddTable)
    }

    /// Deletes the table, which must be there.
    pub fn delete_table(&mut self) -> &mut Self {
        self.push(Operation::DeleteTable)
    }

    /// Deletes the table if it is there.
    pub fn delete_table_if_there(&mut self) -> &mut Self {
        // Adding what is there does nothing, so that afterwards it is there in any case.
        self.push(Operation::AddTable).push(Operation::DeleteTable)
    }

    /// Makes a set or map if it is not there.
    pub fn add_set(&mut self, set: Set) -> &mut Self {
        self.push(Operation::AddSet(set))
    }

    /// Deletes a set.
    pub fn delete_set(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteSet(name))
    }

    /// Deletes all elements of a set.
    pub fn flush_set(&mut self, name: Name) -> &mut Self {
        self.push(Operation::FlushSet(name))
    }

    /// Makes a chain and adds its rules.
    pub fn add_chain(&mut self, chain: Chain) -> &mut Self {
        self.push(Operation::AddChain(chain))
    }

    /// Makes a chain if it is not there and gives it these rules and no others.
    pub fn refill_chain(&mut self, chain: Chain) -> &mut Self {
        self.push(Operation::RefillChain(chain))
    }

    /// Deletes a chain and its rules.
    pub fn delete_chain(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteChain(name))
    }

    /// Makes a named counter if it is not there.
    pub fn add_counter(&mut self, name: Name) -> &mut Self {
        self.push(Operation::AddCounter(name))
    }

    /// Deletes a named counter.
    pub fn delete_counter(&mut self, name: Name) -> &mut Self {
        self.push(Operation::DeleteCounter(name))
    }

    /// Deletes an object of a kind we never make.
    pub fn delete_other(&mut self, object: OtherObject) -> &mut Self {
        self.push(Operation::DeleteOther(object))
    }

    /// Adds an element. Those of one set that come one after the other travel together.
    pub fn add_element(&mut self, element: Element) -> &mut Self {
        if let Some(Operation::AddElements(elements)) = self.operations.last_mut()
            && elements.last().is_some_and(|last| last.set == element.set)
        {
            elements.push(element);
            return self;
        }
        self.push(Operation::AddElements(vec![element]))
    }

    /// Takes back the element that was added last, if that was the last step.
    pub fn take_back_element(&mut self) -> Option<Element> {
        let Some(Operation::AddElements(elements)) = self.operations.last_mut() else { return None };
        let last = elements.pop();
        if elements.is_empty() {
            self.operations.pop();
        }
        last
    }

    /// Adds elements.
    pub fn add_elements(&mut self, elements: impl IntoIterator<Item = Element>) -> &mut Self {
        for element in elements {
            self.add_element(element);
        }
        self
    }

    /// Deletes the element with this key from a set.
    pub fn delete_element(&mut self, set: &Name, key: KeyBytes) -> &mut Self {
        if let Some(Operation::DeleteElements { set: last, keys }) = self.operations.last_mut()
            && last == set
        {
            keys.push(key);
            return self;
        }
        self.push(Operation::DeleteElements { set: set.clone(), keys: vec![key] })
    }

    /// Deletes the elements with the keys of these.
    pub fn delete_elements<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> &mut Self {
        for element in elements {
            self.delete_element(&element.set, element.key.clone());
        }
        self
    }

    fn push(&mut self, operation: Operation) -> &mut Self {
        self.operations.push(operation);
        self
    }
}

impl Operation {
    fn written(&self) -> usize {
        match self {
            Self::AddTable | Self::AddSet(_) | Self::AddCounter(_) => 1,
            Self::AddChain(chain) | Self::RefillChain(chain) => 1 + chain.rules.len(),
            Self::AddElements(elements) => elements.len(),
            Self::DeleteTable
            | Self::DeleteSet(_)
            | Self::FlushSet(_)
            | Self::DeleteChain(_)
            | Self::DeleteElements { .. }
            | Self::DeleteCounter(_)
            | Self::DeleteOther(_) => 0,
        }
    }

    fn removed(&self) -> usize {
        match self {
            Self::DeleteTable
            | Self::DeleteSet(_)
            | Self::DeleteChain(_)
            | Self::DeleteCounter(_)
            | Self::DeleteOther(_) => 1,
            Self::DeleteElements { keys, .. } => keys.len(),
            Self::AddTable
            | Self::AddSet(_)
            | Self::FlushSet(_)
            | Self::AddChain(_)
            | Self::RefillChain(_)
            | Self::AddElements(_)
            | Self::AddCounter(_) => 0,
        }
    }
}
